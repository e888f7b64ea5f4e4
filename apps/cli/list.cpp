// `runmax list`: every kernel of the registry, forward and backward, in the order in which plan asks them.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "registry/registry.hpp"

namespace runmax::cli {
namespace {

nlohmann::ordered_json to_json(const KernelEntry& k, const char* direction) {
  return {{"name", k.name},
          {"direction", direction},
          {"device", device_kind_name(k.device)},
          {"choice", k.choice == Choice::automatic ? "automatic" : "by name"},
          {"built", k.built},
          {"computed_as", k.computed_as},
          {"summary", k.summary}};
}

void print_row(const KernelEntry& k) {
  print_result(fmt::format("{:<22}{:<8}{:<11}{}{}\n", k.name, device_kind_name(k.device),
                           k.choice == Choice::automatic ? "automatic" : "by name", k.summary,
                           k.built ? "" : " (not in this build: no nvcc)"));
}

}  // namespace

ExitCode list_command(const ListArguments& arguments) {
  if (arguments.json) {
    nlohmann::ordered_json json;
    json["schema"] = "runmax.list";
    json["version"] = 1;
    json["kernels"] = nlohmann::ordered_json::array();
    for (const KernelEntry& k : kernels()) json["kernels"].push_back(to_json(k, "forward"));
    for (const KernelEntry& k : backward_kernels()) json["kernels"].push_back(to_json(k, "backward"));
    print_result(json.dump(2) + "\n");
    return ExitCode::done;
  }
  print_result(fmt::format("{:<22}{:<8}{:<11}{}\n", "kernel", "device", "choice", "what it is"));
  for (const KernelEntry& k : kernels()) print_row(k);
  print_result("\ngradients (plan_backward)\n");
  for (const KernelEntry& k : backward_kernels()) print_row(k);
  return ExitCode::done;
}

}  // namespace runmax::cli
