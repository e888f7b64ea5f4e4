// The report as JSON, schema "runmax.lab".
#include <nlohmann/json.hpp>

#include "lab/report.hpp"
#include "runmax/version.hpp"

namespace runmax::lab {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json device_json(const Report& report) {
  const DeviceFacts& d = report.device;
  Json json;
  json["kind"] = device_kind_name(d.device.kind);
  json["index"] = d.device.index;
  json["name"] = d.name;
  json["why"] = report.why;
  json["memory_bytes"] = d.memory_bytes;
  json["cache_bytes"] = report.limits.cache_bytes;
  if (d.device.kind == DeviceKind::cuda) {
    json["compute_capability"] = d.compute_capability;
    json["multiprocessors"] = d.multiprocessors;
  } else {
    json["threads"] = report.threads;
    json["simd"] = d.simd;
  }
  json["driver"] = report.driver;
  return json;
}

Json limits_json(const Report& report) {
  const MachineLimits& m = report.limits;
  Json json;
  json["copy_bytes_per_second"] = m.copy_rate.median;
  json["copy_spread"] = m.copy_rate.spread;
  json["copy_buffer_bytes"] = m.copy_bytes;
  json["cached_copy_bytes_per_second"] = m.cached_copy_rate.median;
  json["fma_flops_per_second"] = m.fma_rate;
  json["ridge_flops_per_byte"] = report.ridge();
  if (report.device.device.kind == DeviceKind::cpu) {
    json["one_thread_copy_bytes_per_second"] = m.one_thread_copy_rate;
    json["one_thread_fma_flops_per_second"] = m.one_thread_fma_rate;
  }
  json["clock_hz"] = m.clock_hz > 0 ? Json(m.clock_hz) : Json();
  json["empty_launch_ms"] = m.empty_launch_ms.median;
  json["empty_launch_spread"] = m.empty_launch_ms.spread;
  return json;
}

// One path with one cache state.
Json result_json(const PathResult& r, CacheState cache) {
  const bool ran = r.ran();
  const std::optional<Summary>& ms = cache == CacheState::cold ? r.cold : r.warm;
  Json json;
  json["n"] = r.n;
  json["path"] = r.path;
  json["kernel"] = r.kernel;
  json["computed_as"] = r.computed_as;
  json["launches"] = r.launches;
  json["status"] = outcome_name(r.outcome);
  json["reason"] = r.reason;
  json["max_abs_error"] = ran ? Json(r.against_reference.max_abs_error) : Json();
  json["gate_fraction"] = ran ? Json(r.against_reference.gate_fraction) : Json();
  json["gate_fraction_vs_naive"] = r.against_naive ? Json(r.against_naive->gate_fraction) : Json();
  json["rtol"] = ran ? Json(r.rtol) : Json();
  json["rows_gated"] = r.rows_gated;
  json["peak_bytes"] = ran ? Json(r.peak_bytes) : Json();
  json["peak_bytes_system"] = or_null(r.peak_bytes_system);
  json["cache"] = cache_name(cache);
  json["time_ms"] = ms ? Json(ms->median) : Json();
  json["spread"] = ms ? Json(ms->spread) : Json();
  json["samples"] = ms ? ms->samples : 0;
  json["fma_share"] = r.fma_share > 0 && cache == CacheState::warm ? Json(r.fma_share) : Json();
  return json;
}

}  // namespace

std::string report_json(const Report& report) {
  Json json;
  json["schema"] = "runmax.lab";
  json["version"] = 1;
  json["runmax"] = version();
  json["commit"] = commit();
  json["compiler"] = compiler();
  json["date"] = report.date;
  json["seed"] = report.seed;
  json["device"] = device_json(report);
  json["limits"] = limits_json(report);
  json["method"] = {{"warm", report.method_warm},
                    {"cold", report.method_cold},
                    {"statistic", "median; spread is half of the interquartile range over the median"},
                    {"peak_bytes", "inputs, output and workspace held at once, as allocated"}};
  json["kernel_sources"] = Json::array();
  for (const KernelSources& s : report.sources)
    json["kernel_sources"].push_back({{"folder", s.folder}, {"sha256", s.sha256}});
  json["costs"] = Json::array();
  for (const lesson::Costs& c : report.costs)
    json["costs"].push_back({{"n", c.n},
                             {"score_bytes", c.score_bytes},
                             {"naive_bytes", c.naive_bytes},
                             {"floor_bytes", c.floor_bytes},
                             {"skipped_bytes", c.skipped_bytes},
                             {"online_requested_bytes", c.online_requested_bytes},
                             {"ratio", c.ratio},
                             {"flops", c.flops},
                             {"intensity_naive", c.naive_intensity},
                             {"intensity_online", c.online_intensity}});
  json["resources"] = Json::array();
  for (const lesson::ResourceFigures& r : report.resources)
    json["resources"].push_back({{"kernel", r.kernel},
                                 {"threads", r.threads},
                                 {"shared_bytes", r.shared_bytes},
                                 {"predicted_shared_bytes", r.expected_shared_bytes},
                                 {"registers", r.registers},
                                 {"local_bytes", r.local_bytes},
                                 {"blocks_per_multiprocessor", r.blocks},
                                 {"predicted_blocks_per_multiprocessor", r.expected_blocks},
                                 {"occupancy", r.occupancy},
                                 {"predicted_occupancy", r.expected_occupancy},
                                 {"limited_by", r.limited_by}});
  json["results"] = Json::array();
  for (const PathResult& r : report.results)
    for (const CacheState cache : {CacheState::warm, CacheState::cold})
      json["results"].push_back(result_json(r, cache));
  json["ratios"] = Json::array();
  for (const Ratio& r : ratios(report))
    json["ratios"].push_back({{"n", r.n},
                              {"naive_over_online", or_null(r.naive_over_online)},
                              {"naive_over_online_cold", or_null(r.naive_over_online_cold)},
                              {"naive_over_runmax", or_null(r.naive_over_runmax)}});
  json["skipped"] = Json::array();
  for (const Skipped& s : skipped(report))
    json["skipped"].push_back({{"n", s.n},
                               {"bytes", s.bytes},
                               {"at_copy_rate_ms", s.at_copy_rate_ms},
                               {"naive_minus_online_ms", or_null(s.naive_minus_online_ms)},
                               {"fits_cache", s.fits_cache}});
  json["predictions"] = Json::array();
  for (const lesson::Prediction& p : predictions(report))
    json["predictions"].push_back(
        {{"name", p.name},
         {"held",
          p.outcome == lesson::Outcome::not_applicable ? Json() : Json(p.outcome == lesson::Outcome::held)},
         {"outcome", lesson::outcome_name(p.outcome)},
         {"figures", p.figures},
         {"reason", p.reason}});
  if (!report.pitfalls.empty()) {
    json["pitfalls"] = Json::array();
    for (const Pitfall& p : report.pitfalls)
      json["pitfalls"].push_back(
          {{"name", p.name}, {"shown", or_null(p.shown)}, {"figures", p.figures}, {"meaning", p.meaning}});
  }
  json["meaning"] = meaning(report);
  json["passed"] = passed(report);
  return json.dump(2) + "\n";
}

}  // namespace runmax::lab
