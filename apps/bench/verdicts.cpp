// The verdict on every output of a workload.
#include "bench/verdicts.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "bench/gradients.hpp"
#include "check/check.hpp"
#include "reference/reference.hpp"

namespace runmax::bench {
namespace {

void take_verdict(const GradientVerdict& verdict, Entry& entry) {
  entry.gate = "gradient gate";
  entry.gate_fraction = verdict.gate_fraction;
  entry.gates = {{entry.gate, entry.gate_fraction}};
  if (verdict.passed) return;
  entry.outcome = Outcome::rejected;
  entry.reason = verdict.reason;
}

void take_verdict(const check::KernelReport& kernel, Entry& entry) {
  for (const check::GateReport& gate : kernel.gates) {
    entry.gates.emplace_back(gate.name, gate.verdict.gate_fraction);
    // The stricter of the bounds on O that apply.
    if (gate.name == "lesson gate" || gate.name == "rounding gate" || gate.name == "f64 gate" ||
        (gate.name == "hostile gate" && entry.gate.empty())) {
      entry.gate = gate.name;
      entry.gate_fraction = gate.verdict.gate_fraction;
    }
    if (gate.verdict.passed || entry.outcome == Outcome::rejected) continue;
    entry.outcome = Outcome::rejected;
    entry.reason = gate.name + " failed: " + gate::place_text(gate.verdict.offender) +
                   fmt::format(" got {:.9g} want {:.9g} bound {:.3e}", gate.verdict.offender.got,
                               gate.verdict.offender.want, gate.verdict.offender.bound);
  }
  if (kernel.gates.empty()) entry.outcome = Outcome::rejected, entry.reason = "no gate could judge it";
}

// Gradients of a problem with options, a form or another type: those of `runmax check`.
std::vector<GradientVerdict> judge_forms(const Workload& workload, const std::vector<Output>& outputs,
                                         int workers) {
  const Problem& p = workload.problem;
  std::vector<check::GradientAnswer> answers;
  answers.reserve(outputs.size());
  for (const Output& output : outputs) answers.push_back(output.gradients);
  std::vector<check::KernelReport> reports(answers.size());
  // All were given the same O and LSE.
  if (!outputs.empty())
    check::judge_gradients(p, workload.drawn, workload.drawn_dout, outputs[0].attention.o,
                           outputs[0].attention.lse, check::gradient_coverage(p, 0), workers, answers,
                           reports, {});
  std::vector<GradientVerdict> verdicts(reports.size());
  for (std::size_t r = 0; r < reports.size(); ++r) {
    verdicts[r].passed = reports[r].accepted();
    if (reports[r].gates.empty()) verdicts[r].reason = "no gate could judge it";
    for (const check::GateReport& gate : reports[r].gates) {
      verdicts[r].gate_fraction = std::max(verdicts[r].gate_fraction, gate.verdict.gate_fraction);
      if (!gate.verdict.passed && verdicts[r].reason.empty())
        verdicts[r].reason = gate::describe(gate.verdict, gate.name, gate.rule, "");
    }
  }
  return verdicts;
}

}  // namespace

void judge_outputs(const Workload& workload, const DeviceFacts& facts, std::int64_t rows,
                   std::vector<Output> outputs, const std::vector<Entry*>& entries) {
  const int workers = check::worker_count(facts, 0);
  if (workload.pass == Pass::backward) {
    const std::vector<GradientVerdict> verdicts = is_plain(workload.problem)
                                                      ? judge_gradients(workload, outputs, workers)
                                                      : judge_forms(workload, outputs, workers);
    for (std::size_t e = 0; e < entries.size(); ++e) take_verdict(verdicts[e], *entries[e]);
    return;
  }
  const Problem& problem = workload.problem;
  std::vector<check::Answer> answers;
  std::vector<check::KernelReport> reports(entries.size());
  for (std::size_t e = 0; e < entries.size(); ++e) {
    answers.push_back(std::move(outputs[e].attention));
    reports[e].kernel = entries[e]->identity.kernel;
    reports[e].repeat = entries[e]->repeat;
  }
  const std::vector<std::int64_t> sampled =
      reference::sampled_rows(problem.query_len, check::rows_to_compare(problem, rows));
  check::judge_answers(problem, workload.drawn, sampled, workers, answers, reports, {});
  for (std::size_t e = 0; e < entries.size(); ++e) take_verdict(reports[e], *entries[e]);
}

}  // namespace runmax::bench
