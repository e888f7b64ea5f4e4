// The report as a person reads it: verdict, reason and the exercise's two figures first.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "judge/report.hpp"
#include "measure/paragraph.hpp"
#include "measure/table.hpp"
#include "measure/units.hpp"

namespace runmax::judge {
namespace {

std::string fraction_text(double fraction) {
  if (!std::isfinite(fraction)) return "not finite";
  return fraction < 1e4 ? fmt::format("{:.4f}", fraction) : fmt::format("{:.2e}", fraction);
}

std::string time_text(double microseconds) {
  if (microseconds < 1e3) return fmt::format("{:.1f} us", microseconds);
  if (microseconds < 1e6) return fmt::format("{:.2f} ms", microseconds / 1e3);
  return fmt::format("{:.2f} s", microseconds / 1e6);
}

std::string colored(const std::string& words, const char* code, TextStyle style) {
  return style.color ? std::string("\x1b[") + code + "m" + words + "\x1b[0m" : words;
}

std::string verdict_words(const Report& report, TextStyle style) {
  std::string name(verdict_name(report.verdict));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
  return colored(name,
                 report.verdict == Verdict::accepted  ? "1;32"
                 : report.verdict == Verdict::not_run ? "1;33"
                                                      : "1;31",
                 style);
}

std::string case_counts(const Report& report) {
  if (report.cases.empty()) return "";
  const auto passed =
      std::count_if(report.cases.begin(), report.cases.end(), [](const CaseResult& c) { return c.passed(); });
  return fmt::format(": {} of {} cases passed", passed, report.cases.size());
}

std::string figures(const Report& report) {
  const auto fraction = report.gate_fraction_vs_naive_1024();
  std::string text = "worst gate fraction against naive at n = 1024: " +
                     (fraction ? fraction_text(*fraction) : "not measured");
  text += ";  starts to win at: ";
  if (!report.timed) return text + "not timed";
  if (const auto n = report.crossover()) return text + fmt::format("n = {}", *n);
  if (report.timing.rows.empty()) return text + "not timed";
  return text + fmt::format("nowhere up to n = {}", report.timing.rows.back().n);
}

std::string cases_text(const Report& report, TextStyle style) {
  std::string text = "\nCases\n";
  std::size_t width = 0;
  for (const CaseResult& one : report.cases) width = std::max(width, one.name.size());
  int notes = 0, explained = 0;
  for (const CaseResult& one : report.cases) {
    const std::string outcome(case_outcome_name(one.outcome));
    text += fmt::format("  {}{:>{}}{:<{}}  ", colored(outcome, one.passed() ? "32" : "31", style), "",
                        8 - outcome.size(), one.name, width);
    if (one.passed()) {
      if (one.memory_second >= 0)
        text += fmt::format("held {} at n = {} and {} at n = {}", measure::bytes_text(one.memory_first),
                            one.length_first, measure::bytes_text(one.memory_second), one.length_second);
      else if (one.gated)
        text += "gate fraction " + fraction_text(one.against_reference.gate_fraction);
      else
        text += "refused, as it should be";
      if (one.has_naive && one.memory_second < 0)
        text += ", against naive " + fraction_text(one.against_naive.gate_fraction);
      if (!one.same_bits) text += ", bits differ from run to run";
      if (!one.blind_to.empty()) {
        ++notes;
        text += " *";
        for (const std::string& name : one.blind_to) text += " " + name;
      }
      text += "\n";
      continue;
    }
    text += one.reason + "\n";
    // The first ones tell the story; every one is in the JSON and the HTML.
    if (++explained > 4) continue;
    text += measure::paragraph((one.finding.empty() ? "" : one.finding + ": ") + one.message, 10, 110);
    text += "          repeat: " + report.repeat(one.name) + "\n";
  }
  if (report.cases_left_out > 0)
    text +=
        fmt::format("  {} more cases were not run: what failed had taken the time\n", report.cases_left_out);
  if (notes > 0)
    text += measure::paragraph("* this input does not count against these trivial answers: they pass it too",
                               2, 110);
  return text;
}

std::string timing_text(const Report& report) {
  std::string text = "\nTime of one call, ";
  text += report.threads == 1 ? "one core each\n" : fmt::format("{} cores each\n", report.threads);
  measure::Table table({"n", "candidate", "naive", "naive/candidate", "of the limit", "outputs checked"});
  for (const TimingRow& row : report.timing.rows)
    table.add(
        {std::to_string(row.n),
         fmt::format("{} ± {:.1f} %", time_text(row.candidate_us.median), 100 * row.candidate_us.spread),
         fmt::format("{} ± {:.1f} %", time_text(row.naive_us.median), 100 * row.naive_us.spread),
         fmt::format("{:.3f}", row.naive_over_candidate), fmt::format("{:.1f} %", 100 * row.share_of_limit),
         row.rows_checked < row.n ? fmt::format("{} ({} rows each)", row.outputs_checked, row.rows_checked)
                                  : std::to_string(row.outputs_checked)});
  text += table.text();
  if (!report.timing.why_stopped.empty()) text += "Longer lengths: " + report.timing.why_stopped + ".\n";
  text += fmt::format("The limit is {} of FMA, measured in this run.\n",
                      measure::rate_text(report.timing.fma_rate, "FLOP/s"));
  text += measure::paragraph("How: " + report.timing.method + ".", 0, 110);
  return text;
}

std::string resources_text(const Resources& r) {
  if (r.registers == 0) return "";
  return fmt::format(
      "\nThe kernel: {} registers a thread, {} of static shared memory, {} of local memory a thread, "
      "{} in arrays of its module\n",
      r.registers, measure::bytes_text(r.static_shared_bytes), measure::bytes_text(r.local_bytes),
      measure::bytes_text(r.module_bytes));
}

std::string isolation_text(const Report& report) {
  std::string text;
  for (const GuardLine& line : report.isolation)
    if (!line.enforced) text += fmt::format("  {} ({}): {}\n", line.name, line.purpose, line.why);
  if (text.empty()) return "";
  return "\nNot enforced here\n" + text;
}

}  // namespace

std::string report_text(const Report& report, TextStyle style) {
  std::string text = fmt::format("{}  {}  ({} tier){}\n", verdict_words(report, style), report.file,
                                 tier_name(report.manifest.tier), case_counts(report));
  text += report.reason + "\n";
  if (report.verdict == Verdict::build_failed) {
    text += report.build_output.empty() ? "" : "\n" + report.build_output;
    return text + "\nbuilt with: " + report.build_command + "\n";
  }
  if (report.verdict == Verdict::not_run) return text + "built with: " + report.build_command + "\n";
  text += figures(report) + "\n";
  if (!report.explanation.empty()) text += "\n" + report.explanation + "\n";
  if (!report.picture.empty())
    text += fmt::format("\nWhere the output of case {} is wrong\n{}", report.map_case, report.picture);
  if (text.back() != '\n') text += "\n";
  text += cases_text(report, style);
  if (report.timed) text += timing_text(report);
  text += resources_text(report.resources);
  text += isolation_text(report);
  text += fmt::format("\nseed {}{}, {}, {}, sha256 {}\n", report.seed,
                      report.seed_drawn ? " (drawn after the build)" : "", report.effort, report.device,
                      report.sha256.substr(0, 16));
  return text;
}

}  // namespace runmax::judge
