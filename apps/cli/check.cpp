// `runmax check PROBLEM`: makes the input, runs a kernel, and puts its answer before the gates.
#include "check/check.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <new>
#include <nlohmann/json.hpp>

#include "check/gradient_check.hpp"
#include "cli/check_json.hpp"
#include "cli/commands.hpp"
#include "cli/device_choice.hpp"
#include "cli/output.hpp"
#include "gate/gate.hpp"

namespace runmax::cli {
namespace {

using nlohmann::ordered_json;

// JSON has no NaN and no infinity; they are written as strings.
ordered_json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

ordered_json element(const gate::Offender& o) {
  const bool of_key = std::string(o.tensor) == "dk" || std::string(o.tensor) == "dv";
  ordered_json json{{"batch", o.batch}, {"head", o.head}, {of_key ? "key" : "query_row", o.row}};
  if (o.dim >= 0) json["head_dim"] = o.dim;
  json["got"] = number(o.got);
  json["want"] = number(o.want);
  json["bound"] = number(o.bound);
  return json;
}

// Shows what is being done on a terminal's stderr, once the check has taken a second.
class Progress {
 public:
  ~Progress() {
    if (shown_) print_aside("\r\033[K");
  }
  void operator()(const std::string& what) {
    if (!isatty(STDERR_FILENO) || std::chrono::steady_clock::now() - start_ < std::chrono::seconds(1)) return;
    print_aside("\r\033[Kcheck: " + what);
    shown_ = true;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool shown_ = false;
};

}  // namespace

ordered_json to_json(const check::KernelReport& kernel) {
  ordered_json json{{"kernel", kernel.kernel}};
  if (kernel.refused()) {
    json["status"] = "refused";
    json["reason"] = kernel.refusal;
    return json;
  }
  json["status"] = kernel.accepted() ? "accepted" : "rejected";
  json["computed_as"] = kernel.computed_as;
  json["gates"] = ordered_json::array();
  for (const check::GateReport& g : kernel.gates) {
    ordered_json gate{{"name", g.name},
                      {"passed", g.verdict.passed},
                      {"gate_fraction", number(g.verdict.gate_fraction)},
                      {"max_abs_error", number(g.verdict.max_abs_error)},
                      {"finite", g.verdict.finite},
                      {"compared", g.verdict.compared},
                      {"failed", g.verdict.failed}};
    if (!g.rule.empty()) gate["rtol"] = g.rule;
    if (g.verdict.has_offender) gate["offender"] = element(g.verdict.offender);
    if (g.verdict.compared > 0) gate["worst"] = element(g.verdict.worst);
    json["gates"].push_back(gate);
  }
  json["not_applied"] = kernel.not_applied;
  if (!kernel.hint.empty()) json["hint"] = kernel.hint;
  json["memory"] = kernel.trespass.empty() ? "intact" : kernel.trespass;
  json["repeat"] = kernel.repeat;
  return json;
}

namespace {

ExitCode check_gradients_command(const CheckArguments& arguments, const Problem& problem,
                                 const DeviceChoice& device) {
  check::CheckOptions options{arguments.kernel, arguments.threads, arguments.num_splits, arguments.rows, {}};
  Result<check::GradientReport> checked = Status(StatusCode::internal_error, "check: did not run");
  try {
    Progress progress;
    options.progress = [&](const std::string& what) { progress(what); };
    checked = check::check_gradients(problem, device.facts, options);
  } catch (const std::bad_alloc&) {
    return complain(ExitCode::environment, "check: out of host memory for " + to_text(problem));
  }
  if (!checked.ok()) return complain(checked.status());
  const check::GradientReport& report = checked.value();
  if (arguments.json) {
    ordered_json json;
    json["schema"] = "runmax.check";
    json["version"] = 1;
    json["problem"] = to_text(report.problem);
    json["direction"] = "backward";
    json["device"] = report.facts.name;
    json["device_reason"] = device.why;
    json["forward_kernel"] = report.forward_kernel;
    json["rows"] = {{"per_head", report.problem.query_len}, {"compared", report.coverage.rows}};
    json["keys"] = {{"per_head", report.problem.kv_len}, {"compared", report.coverage.keys}};
    json["sampled"] = !report.coverage.whole;
    json["kernels"] = ordered_json::array();
    for (const check::KernelReport& kernel : report.kernels) json["kernels"].push_back(to_json(kernel));
    json["accepted"] = report.accepted();
    print_result(json.dump(2) + "\n");
  } else {
    print_result(fmt::format("on {}\n{}{}\n", device.why, describe(report),
                             report.accepted() ? "accepted" : "REJECTED"));
  }
  return report.accepted() ? ExitCode::done : ExitCode::rejected;
}

}  // namespace

ExitCode check_command(const CheckArguments& arguments) {
  Result<Problem> problem = parse_problem(arguments.problem);
  if (!problem.ok()) return complain(problem.status());
  if (arguments.seed) problem.value().seed = *arguments.seed;
  Result<DeviceChoice> device =
      choose_device(arguments.backward && arguments.device == "auto" ? "cpu" : arguments.device);
  if (!device.ok()) return complain(device.status());
  if (arguments.backward) {
    if (arguments.device == "auto") device.value().why = "the CPU, where gradients are computed";
    return check_gradients_command(arguments, problem.value(), device.value());
  }

  check::CheckOptions options{arguments.kernel, arguments.threads, arguments.num_splits, arguments.rows, {}};
  Result<check::CheckReport> checked = Status(StatusCode::internal_error, "check: did not run");
  try {
    Progress progress;
    options.progress = [&](const std::string& what) { progress(what); };
    checked = check::check_problem(problem.value(), device.value().facts, options);
  } catch (const std::bad_alloc&) {
    return complain(ExitCode::environment, "check: out of host memory for " + to_text(problem.value()));
  }
  if (!checked.ok()) return complain(checked.status());
  const check::CheckReport& report = checked.value();

  if (arguments.json) {
    ordered_json json;
    json["schema"] = "runmax.check";
    json["version"] = 1;
    json["problem"] = to_text(report.problem);
    json["device"] = report.facts.name;
    json["device_reason"] = device.value().why;
    json["rows"] = {{"per_head", report.problem.query_len},
                    {"compared", report.rows_compared},
                    {"sampled", report.sampled()}};
    json["lesson_rtol"] = {{"rule", gate::lesson_rule(report.problem.kv_len)},
                           {"value", gate::lesson_rtol(report.problem.kv_len)}};
    json["kernels"] = ordered_json::array();
    for (const check::KernelReport& kernel : report.kernels) json["kernels"].push_back(to_json(kernel));
    json["accepted"] = report.accepted();
    print_result(json.dump(2) + "\n");
  } else {
    print_result(fmt::format("on {}\n{}{}\n", device.value().why, describe(report),
                             report.accepted() ? "accepted" : "REJECTED"));
  }
  return report.accepted() ? ExitCode::done : ExitCode::rejected;
}

}  // namespace runmax::cli
