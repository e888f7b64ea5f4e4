#include "cli/run_check.hpp"

#include "check/double_judge.hpp"
#include "check/forms.hpp"
#include "gate/verdict.hpp"
#include "reference/reference.hpp"

namespace runmax::cli {
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
                     const FormTensors& forms, const std::vector<std::byte>& o,
                     const std::vector<std::byte>& lse, const std::string& repeat) {
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
  const auto output = [&](std::array<std::int64_t, 4> shape, Layout lies, DType dtype,
                          const std::vector<std::byte>& bytes) {
    check::HostTensor tensor = check::packed_tensor(shape, {}, lies);
    tensor.dtype = dtype;
    check::decode(reinterpret_cast<const unsigned char*>(bytes.data()), tensor);
    return tensor;
  };
  const bool wide = problem.dtype == DType::f64;
  answers[0].o = output(check::form_o(problem).shape, layout, problem.dtype, o);
  answers[0].lse = output(check::form_lse(problem).shape, Layout::bhsd, wide ? DType::f64 : DType::f32, lse);
  std::vector<check::KernelReport> reports{verdict.kernel};
  const int threads = check::worker_count(facts, plan.device.kind == DeviceKind::cpu ? plan.threads : 0);
  if (wide) {
    Gathered<double> data = gather_wide(problem, layout, q, k, v, forms);
    check::judge_double(problem,
                        {std::move(data.q), std::move(data.k), std::move(data.v), data.lengths, options},
                        rows, threads, answers, reports, {});
  } else {
    Gathered<float> data = gather(problem, layout, q, k, v, forms);
    check::judge_answers(problem,
                         {std::move(data.q), std::move(data.k), std::move(data.v), data.lengths, options},
                         rows, threads, answers, reports, {}, check::Data::users);
  }
  verdict.kernel = reports[0];
  return verdict;
}

}  // namespace runmax::cli
