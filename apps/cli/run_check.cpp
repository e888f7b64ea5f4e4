#include "cli/run_check.hpp"

#include "gate/verdict.hpp"
#include "reference/reference.hpp"

namespace runmax::cli {
namespace {

// The elements in the order (batch, heads, length, dim).
std::vector<float> packed_bhsd(const NamedArray& array, Layout layout) {
  if (layout == Layout::bhsd) return array.array.values;
  const auto [batch, heads, length, dim] = canonical_shape(array.array.shape, layout);
  std::vector<float> packed;
  packed.reserve(array.array.values.size());
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < length; ++i) {
        const float* const row = array.array.values.data() + ((b * length + i) * heads + h) * dim;
        packed.insert(packed.end(), row, row + dim);
      }
  return packed;
}

}  // namespace

std::string RunVerdict::text() const {
  if (rows == 0) return "check: accepted, there is no query row\n";
  std::string lines = "check: " + std::string(accepted() ? "accepted" : "REJECTED") + ", " +
                      std::to_string(rows_compared) + " of " + std::to_string(rows) +
                      " query rows of each head compared with the double-precision reference\n";
  for (const check::GateReport& g : kernel.gates)
    lines += "  " + gate::describe(g.verdict, g.name, g.rule, kernel.repeat);
  for (const std::string& gate : kernel.not_applied) lines += "  not applied: " + gate + "\n";
  if (!kernel.hint.empty()) lines += "  hint: " + kernel.hint + "\n";
  return lines;
}

RunVerdict judge_run(const Plan& plan, const DeviceFacts& facts, Layout layout, const NamedArray& q,
                     const NamedArray& k, const NamedArray& v, const inputs::HostOptions& options,
                     const std::vector<float>& o, const std::vector<float>& lse, const std::string& repeat) {
  const Problem& problem = plan.problem;
  RunVerdict verdict;
  verdict.kernel.kernel = plan.kernel;
  verdict.kernel.computed_as = plan.computed_as;
  verdict.kernel.repeat = repeat;
  verdict.rows = problem.batch * problem.query_heads == 0 ? 0 : problem.query_len;
  if (verdict.rows == 0) return verdict;
  const std::vector<std::int64_t> rows =
      reference::sampled_rows(problem.query_len, check::rows_to_compare(problem, 0));
  verdict.rows_compared = static_cast<std::int64_t>(rows.size());

  std::vector<check::Answer> answers(1);
  answers[0].plan = plan;
  answers[0].o = check::packed_tensor(
      {problem.batch, problem.query_heads, problem.query_len, problem.value_dim}, o, layout);
  answers[0].lse =
      check::packed_tensor({problem.batch, problem.query_heads, problem.query_len, 1}, lse, Layout::bhsd);
  std::vector<check::KernelReport> reports{verdict.kernel};
  check::judge_answers(
      problem, {packed_bhsd(q, layout), packed_bhsd(k, layout), packed_bhsd(v, layout), {}, options}, rows,
      check::worker_count(facts, plan.device.kind == DeviceKind::cpu ? plan.threads : 0), answers, reports,
      {}, check::Data::users);
  verdict.kernel = reports[0];
  return verdict;
}

}  // namespace runmax::cli
