// The report of a bench as JSON, schema "runmax.bench".
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/report.hpp"
#include "runmax/version.hpp"

namespace runmax::bench {
namespace {

using Json = nlohmann::ordered_json;
using measure::CacheState;

// JSON has no NaN and no infinity; they are written as strings.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json machine_json(const Report& report) {
  const DeviceFacts& d = report.device;
  if (d.device.kind == DeviceKind::cuda)
    return {{"kind", device_kind_name(d.device.kind)},
            {"name", d.name},
            {"simd", "sm_" + std::to_string(d.compute_capability)},
            {"multiprocessors", d.multiprocessors},
            {"l2_bytes", d.l2_bytes},
            {"driver", d.driver_version},
            {"memory_bytes", d.memory_bytes}};
  return {{"kind", device_kind_name(d.device.kind)},
          {"name", d.name},
          {"threads", d.threads},
          {"simd", d.simd},
          {"memory_bytes", d.memory_bytes}};
}

Json limits_json(const Report& report) {
  Json json;
  json["fma"] = Json::array();
  for (const Scaling& s : report.limits.scaling)
    json["fma"].push_back({{"threads", s.threads},
                           {"flops_per_s", s.all_threads},
                           {"one_thread_flops_per_s", s.one_thread},
                           {"scaling", s.factor()},
                           {"scales", s.holds()},
                           {"tries", s.tries}});
  if (report.device.device.kind == DeviceKind::cuda) {
    json["fma_flops_per_s"] = report.limits.fma_rate;
    json["tensor_flops_per_s"] = report.limits.tensor_rate;
  }
  json["copy_bytes_per_s"] = report.limits.copy_rate.median;
  json["copy_spread"] = report.limits.copy_rate.spread;
  json["copy_buffer_bytes"] = report.limits.copy_bytes;
  json["read"] = Json::array();
  for (std::size_t p = 0; p < report.problems.size(); ++p)
    for (const CacheState cache : {CacheState::warm, CacheState::cold})
      if (const measure::Summary* read = report.limits.read(p, cache))
        json["read"].push_back({{"problem", to_text(report.problems[p])},
                                {"cache", measure::cache_name(cache)},
                                {"bytes_per_s", read->median},
                                {"spread", read->spread}});
  return json;
}

const Entry* first_timed(const Report& report, std::size_t problem) {
  for (const Entry& entry : report.entries)
    if (entry.problem == problem && entry.timed()) return &entry;
  return nullptr;
}

Json result_json(const Report& report, const Entry& entry, Way way) {
  const Problem& problem = report.problems[entry.problem];
  const Timing& timing = entry.timing(way);
  const bool timed = !timing.seconds.empty();
  const measure::Summary time = timing.time();
  Json json;
  json["problem"] = to_text(problem);
  json["pass"] = pass_name(report.pass);
  json["implementation"] = entry.identity.implementation;
  json["kernel"] = entry.identity.kernel;
  json["computed_as"] = entry.identity.computed_as;
  json["threads"] = entry.identity.threads;
  json["cache"] = measure::cache_name(cache_of(way));
  json["clock"] = clock_name(report.device.device.kind, way);
  json["status"] = outcome_name(entry.outcome);
  json["reason"] = entry.reason;
  json["gate"] = entry.gate;
  json["gate_fraction"] = number(entry.gate_fraction);
  json["gates"] = Json::object();
  for (const auto& [gate, fraction] : entry.gates) json["gates"][gate] = number(fraction);
  json["flops"] = report.flops(entry.problem);
  json["bytes"] = report.bytes(entry.problem);
  json["time_us"] = timed ? Json(time.median * 1e6) : Json();
  json["spread"] = timed ? Json(time.spread) : Json();
  json["fastest_us"] = timed ? Json(time.fastest * 1e6) : Json();
  json["tflops"] = timed ? Json(report.flops(entry.problem) / time.median * 1e-12) : Json();
  json["bytes_per_s"] = timed ? Json(report.bytes(entry.problem) / time.median) : Json();
  json["limit"] = timed ? Json(limit_name(timing.limit())) : Json();
  json["share_of_limit"] = timed ? Json(timing.share()) : Json();
  json["best_share_of_limit"] = timed ? Json(timing.best_share()) : Json();
  json["shared_core_samples"] = entry.shared_core_samples;
  json[way == Way::graph ? "graph_nodes" : "runs_per_sample"] = timing.runs_per_sample;
  json["samples_us"] = Json::array();
  for (const double seconds : timing.seconds) json["samples_us"].push_back(seconds * 1e6);
  const Entry* first = first_timed(report, entry.problem);
  const auto ratio = first ? paired_ratio(timing, first->timing(way)) : std::nullopt;
  json["time_over_first"] = ratio ? Json(ratio->median) : Json();
  json["time_over_first_spread"] = ratio ? Json(ratio->spread) : Json();
  json["repeat"] = entry.repeat;
  return json;
}

}  // namespace

std::string json(const Report& report) {
  Json json;
  json["schema"] = "runmax.bench";
  json["version"] = 1;
  json["runmax"] = version();
  json["commit"] = measure::commit();
  json["compiler"] = measure::compiler();
  json["date"] = report.date;
  json["machine"] = machine_json(report);
  json["method"] = method(report.device.device.kind);
  json["flops_formula"] = flops_formula(report.pass);
  json["bytes_formula"] = bytes_formula(report.pass);
  json["rounds"] = report.rounds;
  json["seconds"] = report.seconds;
  json["limits"] = limits_json(report);
  std::vector<std::string> kernels;
  for (const Entry& entry : report.entries)
    if (entry.identity.implementation == "runmax") kernels.push_back(entry.identity.kernel);
  json["kernel_sources"] = Json::array();
  for (const measure::KernelSources& s : measure::sources_of(kernels))
    json["kernel_sources"].push_back({{"folder", s.folder}, {"sha256", s.sha256}});
  json["results"] = Json::array();
  for (const Entry& entry : report.entries)
    for (const Way way : report.ways) json["results"].push_back(result_json(report, entry, way));
  json["passed"] = report.passed();
  return json.dump(2) + "\n";
}

}  // namespace runmax::bench
