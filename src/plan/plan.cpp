// From a problem and device facts to a kernel, its tiles and its workspace. Pure: no allocation on any
// device.
#include <string>

#include "registry/registry.hpp"

namespace runmax {
namespace {

std::string reasons_text(const std::vector<Refusal>& refusals) {
  std::string text;
  for (const Refusal& refused : refusals)
    text += (text.empty() ? "" : "; ") + refused.kernel + ": " + refused.reason;
  return text;
}

std::string names_text(std::span<const KernelEntry> list) {
  std::string text;
  for (const KernelEntry& kernel : list) text += (text.empty() ? "" : ", ") + std::string(kernel.name);
  return text;
}

// The plan by the first entry of the list that accepts, or by the one that is forced.
Result<Plan> plan_from(std::span<const KernelEntry> list, const Problem& problem, const DeviceFacts& facts,
                       const PlanOptions& options) {
  if (Status status = validate(problem); !status.ok()) return status;
  if (options.threads < 0)
    return Status(StatusCode::invalid_argument,
                  "threads: must be at least 0 (0 is all), got " + std::to_string(options.threads));
  if (options.num_splits < 0)
    return Status(StatusCode::invalid_argument, "num_splits: must be at least 0 (0 is automatic), got " +
                                                    std::to_string(options.num_splits));

  Plan plan;
  plan.problem = problem;
  plan.device = facts.device;
  const KernelEntry* chosen = nullptr;
  if (!options.kernel.empty()) {
    for (const KernelEntry& kernel : list)
      if (kernel.name == options.kernel) chosen = &kernel;
    if (!chosen)
      return Status(StatusCode::invalid_argument,
                    "kernel: no kernel is named '" + options.kernel + "'; there are " + names_text(list));
    if (auto reason = refusal(*chosen, problem, facts, options))
      return Status(StatusCode::unsupported, options.kernel + ": " + *reason + " (" + to_text(problem) + ")");
  } else {
    for (const KernelEntry& kernel : list) {
      if (kernel.device != facts.device.kind || kernel.choice == Choice::by_name) continue;
      auto reason = refusal(kernel, problem, facts, options);
      if (!reason) {
        chosen = &kernel;
        break;
      }
      plan.refusals.push_back({std::string(kernel.name), *reason});
    }
    if (!chosen)
      return Status(StatusCode::unsupported,
                    "no kernel on " + std::string(device_kind_name(facts.device.kind)) + " serves " +
                        to_text(problem) + ": " + reasons_text(plan.refusals));
  }
  plan.kernel = chosen->name;
  plan.computed_as = chosen->computed_as;
  chosen->fill_plan(plan, facts, options);
  return plan;
}

}  // namespace

Result<Plan> plan(const Problem& problem, const DeviceFacts& facts, const PlanOptions& options) {
  return plan_from(kernels(), problem, facts, options);
}

Result<Plan> plan_backward(const Problem& problem, const DeviceFacts& facts, const PlanOptions& options) {
  return plan_from(backward_kernels(), problem, facts, options);
}

std::string describe(const Plan& plan) {
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += name + ": " + value + "\n";
  };
  line("problem", to_text(plan.problem));
  line("device", std::string(device_kind_name(plan.device.kind)) +
                     (plan.device.kind == DeviceKind::cuda ? ":" + std::to_string(plan.device.index) : ""));
  line("kernel", plan.kernel);
  line("computed as", plan.computed_as);
  line("tile", std::to_string(plan.block_q) + " queries x " + std::to_string(plan.block_kv) + " keys");
  line("splits over keys", std::to_string(plan.num_splits));
  line("work items", std::to_string(plan.work_items));
  line(plan.device.kind == DeviceKind::cpu ? "threads at most" : "threads a block",
       std::to_string(plan.threads));
  if (plan.device.kind == DeviceKind::cuda) line("kernel launches", std::to_string(plan.launches));
  line("workspace bytes", std::to_string(plan.workspace_bytes));
  for (const Refusal& refused : plan.refusals) line("refused", refused.kernel + ": " + refused.reason);
  return text;
}

}  // namespace runmax
