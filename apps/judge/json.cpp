// The report as JSON, schema "runmax.judge".
#include <cmath>
#include <nlohmann/json.hpp>

#include "judge/report.hpp"
#include "measure/provenance.hpp"
#include "runmax/version.hpp"

namespace runmax::judge {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no word for what is no number.
Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json case_json(const Report& report, const CaseResult& one) {
  Json json{{"name", one.name},
            {"reason", one.reason},
            {"problem", one.problem},
            {"outcome", case_outcome_name(one.outcome)},
            {"finding", text_or_null(one.finding)},
            {"message", one.message.substr(0, 2000)},
            {"calls", one.calls}};
  json["gate_fraction"] = one.gated ? number(one.against_reference.gate_fraction) : Json();
  json["gate_fraction_vs_naive"] =
      one.gated && one.has_naive ? number(one.against_naive.gate_fraction) : Json();
  json["max_abs_error"] = one.gated ? number(one.against_reference.max_abs_error) : Json();
  json["rule"] = one.rule;
  const gate::Verdict& verdict =
      one.against_reference.has_offender ? one.against_reference : one.against_naive;
  if (one.gated && verdict.has_offender) {
    const gate::Offender& o = verdict.offender;
    json["offender"] = {{"batch", o.batch},
                        {"head", o.head},
                        {"row", o.row},
                        {"dim", o.dim},
                        {"got", number(o.got)},
                        {"want", number(o.want)},
                        {"bound", number(o.bound)}};
  }
  json["same_bits"] = one.same_bits;
  json["counts"] = one.blind_to.empty();
  std::string blind;
  for (const std::string& name : one.blind_to) blind += (blind.empty() ? "" : " ") + name;
  json["blind_to"] = blind;
  if (one.memory_second >= 0)
    json["memory"] = {{"n", one.length_first},
                      {"bytes", one.memory_first},
                      {"n2", one.length_second},
                      {"bytes2", one.memory_second}};
  json["repeat"] = report.repeat(one.name);
  return json;
}

Json timing_json(const TimingRow& row) {
  return {{"n", row.n},
          {"candidate_us", row.candidate_us.median},
          {"candidate_spread", row.candidate_us.spread},
          {"naive_us", row.naive_us.median},
          {"naive_spread", row.naive_us.spread},
          {"rounds", row.candidate_us.samples},
          {"naive_over_candidate", row.naive_over_candidate},
          {"floor_us", row.floor_us},
          {"share_of_limit", row.share_of_limit},
          {"outputs_checked", row.outputs_checked},
          {"rows_checked", row.rows_checked}};
}

// One digit a cell: 0 right, 1 to 8 wrong by up to that power of ten of the bound, 9 beyond or not finite.
std::string map_digits(const diagnosis::ErrorMap& map) {
  std::string digits;
  for (const float fraction : map.gate_fraction) {
    const float size = fraction > 1 ? std::ceil(std::log10(fraction)) : 0.0f;
    digits +=
        !std::isfinite(fraction)
            ? '9'
            : static_cast<char>('0' + std::min(9, fraction > 1 ? std::max(1, static_cast<int>(size)) : 0));
  }
  return digits;
}

}  // namespace

std::string report_json(const Report& report) {
  Json json;
  json["schema"] = "runmax.judge";
  json["version"] = 1;
  json["runmax"] = version();
  json["commit"] = measure::commit();
  json["compiler"] = measure::compiler();
  json["date"] = report.date;
  json["seed"] = report.seed;
  json["effort"] = report.effort;
  json["device"] = {{"kind", report.resources.registers > 0 ? "cuda" : "cpu"},
                    {"name", report.device},
                    {"threads", report.threads}};
  json["candidate"] = {
      {"file", report.file},
      {"sha256", report.sha256},
      {"tier", tier_name(report.manifest.tier)},
      {"manifest", report.manifest.found},
      {"lengths", std::to_string(report.manifest.shortest) + ".." + std::to_string(report.manifest.longest)},
      {"multiple_of", report.manifest.multiple_of},
      {"heads", heads_name(report.manifest.heads)},
      {"causal", report.manifest.causal},
      {"lse", report.manifest.lse}};
  json["verdict"] = verdict_name(report.verdict);
  json["exit_code"] = report.exit_status();
  json["reason"] = report.reason;
  json["diagnosis"] = text_or_null(report.diagnosis);
  json["explanation"] = report.explanation.substr(0, 4000);
  const auto fraction = report.gate_fraction_vs_naive_1024();
  json["gate_fraction_vs_naive_1024"] = fraction ? number(*fraction) : Json();
  const auto crossover = report.crossover();
  json["crossover_n"] = crossover ? Json(*crossover) : Json();
  json["largest_n"] = report.timing.rows.empty() ? Json() : Json(report.timing.rows.back().n);
  json["build"] = {{"command", report.build_command},
                   {"seconds", report.build_seconds},
                   {"output", report.build_output.substr(0, 4000)}};
  json["cases"] = Json::array();
  for (const CaseResult& one : report.cases) json["cases"].push_back(case_json(report, one));
  json["cases_left_out"] = report.cases_left_out;
  json["error_map"] = {{"case", report.map_case},
                       {"rows", report.map.rows},
                       {"columns", report.map.columns},
                       {"rows_per_cell", report.map.rows_per_cell},
                       {"columns_per_cell", report.map.columns_per_cell},
                       {"digits", map_digits(report.map)}};
  if (const Resources& r = report.resources; r.registers > 0)
    json["resources"] = {{"registers", r.registers},
                         {"static_shared_bytes", r.static_shared_bytes},
                         {"local_bytes", r.local_bytes},
                         {"module_bytes", r.module_bytes}};
  json["timing"] = Json::array();
  for (const TimingRow& row : report.timing.rows) json["timing"].push_back(timing_json(row));
  json["timing_method"] = report.timing.method;
  json["why_stopped"] = report.timed ? report.timing.why_stopped : report.why_not_timed;
  json["fma_flops_per_second"] = report.timing.fma_rate;
  json["isolation"] = Json::array();
  for (const GuardLine& line : report.isolation)
    json["isolation"].push_back(
        {{"name", line.name}, {"purpose", line.purpose}, {"enforced", line.enforced}, {"why", line.why}});
  return json.dump(2) + "\n";
}

}  // namespace runmax::judge
