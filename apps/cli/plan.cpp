// `runmax plan PROBLEM`: what would run, how, with which workspace, and the matrix it avoids.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/device_choice.hpp"
#include "cli/output.hpp"
#include "runmax/backward.hpp"

namespace runmax::cli {

ExitCode plan_command(const PlanArguments& arguments) {
  Result<Problem> problem = parse_problem(arguments.problem);
  if (!problem.ok()) return complain(problem.status());
  Result<DeviceChoice> device = choose_device(arguments.device);
  if (!device.ok()) return complain(device.status());
  const PlanOptions options{
      .kernel = arguments.kernel, .threads = arguments.threads, .num_splits = arguments.num_splits};
  Result<Plan> planned = arguments.backward ? plan_backward(problem.value(), device.value().facts, options)
                                            : plan(problem.value(), device.value().facts, options);
  if (!planned.ok()) return complain(planned.status());
  const Plan& p = planned.value();
  const double flops = arguments.backward ? backward_flops(p.problem) : forward_flops(p.problem);
  const std::string_view flops_formula =
      arguments.backward ? backward_flops_formula() : forward_flops_formula();
  const double bytes = minimum_bytes(p.problem);
  if (arguments.json) {
    nlohmann::ordered_json json;
    json["schema"] = "runmax.plan";
    json["version"] = 1;
    json["problem"] = to_text(p.problem);
    json["direction"] = arguments.backward ? "backward" : "forward";
    json["device"] = device.value().facts.name;
    json["device_kind"] = device_kind_name(p.device.kind);
    json["kernel"] = p.kernel;
    json["computed_as"] = p.computed_as;
    json["block_q"] = p.block_q;
    json["block_kv"] = p.block_kv;
    json["num_splits"] = p.num_splits;
    json["work_items"] = p.work_items;
    json["threads"] = p.threads;
    json["launches"] = p.launches;
    json["workspace_bytes"] = p.workspace_bytes;
    json["flops"] = flops;
    if (!arguments.backward) json["minimum_bytes"] = bytes;
    json["score_matrix_bytes"] = score_matrix_bytes(p.problem);
    json["refusals"] = nlohmann::ordered_json::array();
    for (const Refusal& r : p.refusals)
      json["refusals"].push_back({{"kernel", r.kernel}, {"reason", r.reason}});
    print_result(json.dump(2) + "\n");
    return ExitCode::done;
  }
  print_result(describe(p));
  print_result(fmt::format("flops: {:.0f} = {}\n", flops, flops_formula));
  if (!arguments.backward)
    print_result(fmt::format("bytes at least: {:.0f} = {}\n", bytes, minimum_bytes_formula()));
  print_result(
      fmt::format("score matrix avoided: {:.0f} bytes = 4 * batch * query_heads * query_len * kv_len\n",
                  score_matrix_bytes(p.problem)));
  return ExitCode::done;
}

}  // namespace runmax::cli
