// The report of a bench as text.
#include <fmt/core.h>

#include "bench/report.hpp"
#include "measure/paragraph.hpp"
#include "measure/table.hpp"
#include "measure/units.hpp"

namespace runmax::bench {
namespace {

using measure::CacheState;
using measure::rate_text;

constexpr std::size_t columns = 80;

std::string threads_text(int threads) { return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s"); }

// Four digits of the median, then the spread in percent.
std::string time_text(const Timing& timing) {
  const measure::Summary time = timing.time();
  const double us = time.median * 1e6, percent = 100 * time.spread;
  return fmt::format("{} ±{:.{}f}",
                     us < 999.95 ? fmt::format("{:.1f} us", us) : fmt::format("{:#.4g} ms", us * 1e-3),
                     percent, percent < 9.95 ? 1 : 0);
}

// The number of threads of every entry of a problem, if it is one; 0 on a GPU or if they differ.
int common_threads(const Report& report, std::size_t at) {
  int threads = 0;
  for (const Entry& entry : report.entries) {
    if (entry.problem != at) continue;
    if (threads > 0 && entry.identity.threads != threads) return 0;
    threads = entry.identity.threads;
  }
  return threads;
}

// What a sample's rate is told in: bytes if nothing but reading them limits any of the problem's entries.
bool told_in_bytes(const Report& report, std::size_t at) {
  bool any = false;
  for (const Entry& entry : report.entries)
    if (entry.problem == at && entry.timed())
      for (const Way way : {Way::warm, Way::graph, Way::cold})
        if (const Timing& timing = entry.timing(way); !timing.seconds.empty()) {
          if (timing.limit() != Limit::read) return false;
          any = true;
        }
  return any;
}

std::string limits_text(const Report& report) {
  std::string text = "limits, measured in turns with the rest:\n";
  for (const Scaling& s : report.limits.scaling) {
    text += fmt::format("  FMA on {}: {}", threads_text(s.threads), rate_text(s.all_threads, "FLOP/s"));
    if (s.threads > 1) {
      text += fmt::format(", {:.2f} x one thread", s.factor());
      if (!s.holds())
        text +=
            fmt::format("\n    does not scale in {} tries: threads share a core, or others use it", s.tries);
    }
    text += "\n";
  }
  if (report.limits.fma_rate > 0)
    text += fmt::format("  FP32 multiply-adds: {}; fp16 tensor-core products: {}\n",
                        rate_text(report.limits.fma_rate, "FLOP/s"),
                        rate_text(report.limits.tensor_rate, "FLOP/s"));
  if (report.limits.copy_rate.samples > 0)
    text +=
        fmt::format("  copy of {}: {}, read plus written\n", measure::bytes_text(report.limits.copy_bytes),
                    rate_text(report.limits.copy_rate.median, "B/s"));
  return text;
}

std::string entry_note(const Entry& entry) {
  if (entry.outcome == Outcome::ok) return "";
  std::string note = measure::paragraph(
      fmt::format("{}: {}: {}", entry.identity.kernel, outcome_name(entry.outcome), entry.reason), 4,
      columns);
  if (entry.outcome == Outcome::rejected && !entry.repeat.empty())
    note += "      repeat: " + entry.repeat + "\n";
  return note;
}

std::string problem_text(const Report& report, std::size_t at) {
  const Problem& problem = report.problems[at];
  std::string head = fmt::format("{}{}: {:.4g} GFLOP, {}", to_text(problem),
                                 report.pass == Pass::backward ? ", backward" : "", report.flops(at) * 1e-9,
                                 measure::bytes_text(static_cast<std::int64_t>(report.bytes(at))));
  for (const CacheState cache : {CacheState::warm, CacheState::cold})
    if (const measure::Summary* read = report.limits.read(at, cache))
      head += fmt::format("; reads {} at {}", measure::cache_name(cache), rate_text(read->median, "B/s"));
  const bool gpu = report.device.device.kind == DeviceKind::cuda;
  const int threads = common_threads(report, at);
  if (threads > 0) head += "; on " + threads_text(threads);
  const bool counted = !gpu && threads == 0;
  const auto count = [&](const Entry& entry) {
    return counted ? std::to_string(entry.identity.threads) : "";
  };
  const bool in_bytes = told_in_bytes(report, at);
  const double work = in_bytes ? report.bytes(at) * 1e-9 : report.flops(at) * (gpu ? 1e-12 : 1e-9);
  measure::Table table({"kernel", counted ? "thr" : "", "cache", "time ±%",
                        in_bytes ? "GB/s"
                        : gpu    ? "TFLOP/s"
                                 : "GFLOP/s",
                        "share of", "gate", "ratio"});
  const Entry* first = nullptr;
  std::string notes;
  for (const Entry& entry : report.entries) {
    if (entry.problem != at) continue;
    notes += entry_note(entry);
    const std::string name =
        entry.identity.implementation == "runmax" ? entry.identity.kernel : entry.identity.implementation;
    if (!entry.timed()) {
      table.add({name, count(entry), std::string(outcome_name(entry.outcome))});
      continue;
    }
    if (!first) first = &entry;
    bool named = false;
    for (const Way way : {Way::warm, Way::graph, Way::cold}) {
      const Timing& timing = entry.timing(way);
      if (timing.seconds.empty()) continue;
      const double seconds = timing.time().median;
      const auto ratio = paired_ratio(timing, first->timing(way));
      table.add({named ? "" : name, named ? "" : count(entry),
                 way == Way::graph ? "graph" : std::string(measure::cache_name(cache_of(way))),
                 time_text(timing), fmt::format("{:.{}f}", work / seconds, in_bytes ? 2 : 1),
                 fmt::format("{:.3f} {}", timing.share(), limit_name(timing.limit())),
                 named ? "" : fmt::format("{:.4f}", entry.gate_fraction),
                 &entry == first || !ratio
                     ? ""
                     : fmt::format("{:.{}f}", ratio->median, ratio->median < 99.5 ? 2 : 0)});
      named = true;
    }
    if (entry.shared_core_samples > 0)
      notes += fmt::format("    {} on {}: beside {} of {} samples the FMA peak did not scale\n", name,
                           threads_text(entry.identity.threads), entry.shared_core_samples, report.rounds);
  }
  return measure::paragraph(head, 0, columns) + table.text(1) + notes;
}

}  // namespace

std::string text(const Report& report) {
  const bool gpu = report.device.device.kind == DeviceKind::cuda;
  std::string text = measure::paragraph(
      fmt::format("{}, {}, commit {}, {}", report.device.name,
                  gpu ? fmt::format("sm_{}", report.device.compute_capability) : report.device.simd,
                  measure::commit(), measure::compiler()),
      0, columns);
  text += measure::paragraph(fmt::format("flops = {}", flops_formula(report.pass)), 0, columns);
  text += measure::paragraph(fmt::format("bytes = {}", bytes_formula(report.pass)), 0, columns);
  text += limits_text(report) + "\n";
  for (std::size_t at = 0; at < report.problems.size(); ++at) text += problem_text(report, at) + "\n";
  text += measure::paragraph(
      fmt::format(
          "time: median of {} rounds ± half of the interquartile range. share: of the limit that is named, "
          "measured beside each sample. gate: largest error over what the {} allows. ratio: time over the "
          "first line's, round by round.",
          report.rounds, report.entries.empty() ? "gate" : report.entries.front().gate),
      0, columns);
  if (!report.passed()) text += "FAILED\n";
  return text;
}

}  // namespace runmax::bench
