// The report as text, for a reader who sees it scroll by: one section a function.
#include <fmt/core.h>

#include "gate/gate.hpp"
#include "lab/report.hpp"
#include "measure/paragraph.hpp"
#include "measure/table.hpp"
#include "measure/units.hpp"

namespace runmax::lab {
namespace {

std::string heading(const std::string& words, TextStyle style) {
  return style.color ? "\n\x1b[1m" + words + "\x1b[0m\n" : "\n" + words + "\n";
}

std::string good(const std::string& words, TextStyle style) {
  return style.color ? "\x1b[32m" + words + "\x1b[0m" : words;
}

std::string bad(const std::string& words, TextStyle style) {
  return style.color ? "\x1b[31m" + words + "\x1b[0m" : words;
}

std::string time_text(const std::optional<Summary>& ms) {
  if (!ms) return "-";
  return fmt::format("{:.4f} ± {:.1f} %", ms->median, 100 * ms->spread);
}

std::string ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.3f}", *ratio) : "-";
}

}  // namespace

std::string machine_text(const Report& report, TextStyle style) {
  const DeviceFacts& d = report.device;
  std::string text = heading("Device", style);
  text += "  " + report.why + "\n";
  if (d.device.kind == DeviceKind::cuda)
    text += fmt::format("  {}: sm_{}, {} multiprocessors, {} memory ({} free), L2 {}, driver {}\n", d.name,
                        d.compute_capability, d.multiprocessors, bytes_text(d.memory_bytes),
                        bytes_text(d.free_bytes), bytes_text(d.l2_bytes), report.driver);
  else
    text += fmt::format("  {}: {} threads, {}, {} memory ({} free), last-level cache {}\n", d.name,
                        report.threads, d.simd, bytes_text(d.memory_bytes), bytes_text(d.free_bytes),
                        bytes_text(report.limits.cache_bytes));
  text += fmt::format("  one head, d = {}, FP32, seed {}\n", head_dim, report.seed);
  return text;
}

std::string costs_text(const Report& report, TextStyle style) {
  std::string text = heading("What the matrix costs", style);
  Table table({"N", "score matrix", "naive moves", "floor", "ratio", "online asks for", "GFLOP",
               "naive FLOP/B", "online FLOP/B"});
  for (const lesson::Costs& c : report.costs)
    table.add({std::to_string(c.n), bytes_text(c.score_bytes), bytes_text(c.naive_bytes),
               bytes_text(c.floor_bytes), fmt::format("{:.1f}x", c.ratio),
               bytes_text(c.online_requested_bytes), fmt::format("{:.3f}", c.flops * 1e-9),
               fmt::format("{:.1f}", c.naive_intensity), fmt::format("{:.1f}", c.online_intensity)});
  text += table.text();
  text +=
      "  score matrix 4*N^2; naive 20*N^2 + 16*N*d (five passes over the matrix); floor 16*N*d (Q, K, V, O "
      "once);\n"
      "  online asks for K and V once per block of 64 queries: whether that reaches memory or stops at a "
      "cache,\n"
      "  this program cannot know. FLOP 4*N^2*d; intensity of naive 4*N^2*d / (20*N^2) = 12.8, of online "
      "N/4.\n";
  const MachineLimits& m = report.limits;
  const bool gpu = report.device.device.kind == DeviceKind::cuda;
  text += fmt::format(
      "  measured here: copy {} (± {:.1f} %, two buffers of {}), {} inside half of the {} cache,\n",
      rate_text(m.copy_rate.median, "B/s"), 100 * m.copy_rate.spread, bytes_text(m.copy_bytes),
      rate_text(m.cached_copy_rate.median, "B/s"), gpu ? "L2" : "last-level");
  text += fmt::format("  FP32 FMA {}", rate_text(m.fma_rate, "FLOP/s"));
  if (!gpu)
    text += fmt::format(" on {} threads (one thread: {} and {})", report.threads,
                        rate_text(m.one_thread_copy_rate, "B/s"), rate_text(m.one_thread_fma_rate, "FLOP/s"));
  // A peak is a maximum; under it a GPU's clock falls, so the two do not belong to the same moment.
  if (m.clock_hz > 0)
    text += fmt::format("; clock {:.0f} MHz{}", m.clock_hz * 1e-6, gpu ? " in the last sample" : "");
  text += fmt::format("\n  ridge point {:.2f} FLOP/B: naive (12.8) lies on the {} side", report.ridge(),
                      12.8 < report.ridge() ? "memory" : "arithmetic");
  std::string low, high;
  for (const lesson::Costs& c : report.costs) {
    std::string& side = c.online_intensity < report.ridge() ? low : high;
    side += (side.empty() ? "" : ", ") + std::to_string(c.n);
  }
  if (!high.empty()) text += "; online on the arithmetic side at N = " + high;
  if (!low.empty()) text += "; online on the memory side at N = " + low;
  text += "\n  N = 131072: the score matrix of one head alone would take " +
          bytes_text(lesson::attention_costs(131072, head_dim).score_bytes) +
          "; naive runs only if its matrices fit in 80 % of free memory\n";
  return text;
}

std::string gates_text(const Report& report, TextStyle style) {
  std::string text = heading("Gate", style);
  text +=
      "  |o - want| <= rtol * A*, A* = sum of p*|v| in double (plus 2^-16 of the row's largest), every value "
      "finite;\n"
      "  once against the double-precision reference, once against naive\n";
  for (const lesson::Costs& c : report.costs)
    text += fmt::format("  N = {}: rtol = {}\n", c.n, gate::lesson_rule(c.n));
  return text;
}

std::string resources_text(const Report& report, TextStyle style) {
  std::string text = heading("Resources", style);
  if (report.resources.empty()) return text + "  not applicable here: " + report.why_no_resources + "\n";
  Table table({"kernel", "limited by", "threads", "shared B", "predicted", "registers", "local B",
               "blocks/SM", "predicted", "occupancy", "predicted"});
  for (const lesson::ResourceFigures& r : report.resources)
    table.add({r.kernel, r.limited_by, std::to_string(r.threads), std::to_string(r.shared_bytes),
               std::to_string(r.expected_shared_bytes), std::to_string(r.registers),
               std::to_string(r.local_bytes), std::to_string(r.blocks), std::to_string(r.expected_blocks),
               fmt::format("{:.1f} %", 100 * r.occupancy),
               fmt::format("{:.1f} %", 100 * r.expected_occupancy)});
  text += table.text(2);
  text +=
      "  from cudaFuncGetAttributes and cudaOccupancyMaxActiveBlocksPerMultiprocessor, beside arithmetic "
      "from the\n"
      "  device's limits; registers are the compiler's choice\n";
  return text;
}

std::string results_text(const Report& report, TextStyle style) {
  std::string text = heading("Results", style);
  Table table({"N", "path", "kernel", "max abs err", "gate frac", "vs naive", "gate", "memory", "system saw",
               "warm ms", "cold ms", "naive/path"});
  std::string notes;
  for (const PathResult& r : report.results) {
    if (!r.ran()) {
      table.add({std::to_string(r.n), r.path, r.kernel.empty() ? "-" : r.kernel, "-", "-", "-",
                 std::string(outcome_name(r.outcome)), "-", "-", "-", "-", "-"});
      notes += fmt::format("  N = {}, {}: {}: {}\n", r.n, r.path, outcome_name(r.outcome), r.reason);
      continue;
    }
    const PathResult* naive = report.find(r.n, "naive");
    std::optional<double> ratio;
    if (naive && naive->warm && r.warm && r.path != "naive") ratio = naive->warm->median / r.warm->median;
    table.add({std::to_string(r.n), r.path, r.kernel,
               fmt::format("{:.3e}", r.against_reference.max_abs_error),
               fmt::format("{:.4f}", r.against_reference.gate_fraction),
               r.against_naive ? fmt::format("{:.4f}", r.against_naive->gate_fraction) : "-",
               r.outcome == Outcome::ok ? "passed" : "FAILED", bytes_text(r.peak_bytes),
               r.peak_bytes_system ? bytes_text(*r.peak_bytes_system) : "-", time_text(r.warm),
               time_text(r.cold), ratio_text(ratio)});
    if (r.outcome == Outcome::failed)
      notes += "  " + bad("FAILED", style) +
               fmt::format(" N = {}, {}: {}\n  repeat: {}\n", r.n, r.kernel, r.reason, r.repeat);
  }
  text += table.text(3);
  for (const lesson::Costs& c : report.costs)
    if (const PathResult* r = report.find(c.n, "runmax"); r && r->ran() && r->rows_gated < c.n)
      notes += fmt::format("  N = {}: gated on {} of {} query rows\n", c.n, r->rows_gated, c.n);
  text += notes;
  text += "  warm: " + report.method_warm + "\n  cold: " + report.method_cold + "\n";
  text +=
      "  median ± half of the interquartile range. memory: inputs, output and workspace held at once, as "
      "allocated;\n";
  text += report.device.device.kind == DeviceKind::cuda
              ? "  system saw: how far the device's free memory fell (it is given out in large pieces)\n"
              : "  system saw: how far this process's resident set rose\n";
  text += paragraph(launch_bound_note(report), 2);
  std::string shares;
  for (const PathResult& r : report.results)
    if (r.fma_share > 0 && r.n == report.costs.back().n)
      shares += fmt::format("{}{} {:.1f} %", shares.empty() ? "" : ", ", r.path, 100 * r.fma_share);
  if (!shares.empty())
    text += fmt::format("  share of the FMA rate at N = {}: {}\n", report.costs.back().n, shares);

  text += heading("What the skipped bytes are worth", style);
  Table skips({"N", "skipped", "at copy rate ms", "naive - online ms", "both matrices in cache"});
  for (const Skipped& s : skipped(report))
    skips.add({std::to_string(s.n), bytes_text(s.bytes), fmt::format("{:.4f}", s.at_copy_rate_ms),
               s.naive_minus_online_ms ? fmt::format("{:+.4f}", *s.naive_minus_online_ms) : "-",
               s.fits_cache ? "yes" : "no"});
  text += skips.text();
  const double empty_us = report.limits.empty_launch_ms.median * 1e3;
  if (report.device.device.kind == DeviceKind::cuda)
    text += fmt::format("  an empty launch takes {:.3f} us; online saves two of naive's three: {:.4f} ms\n",
                        empty_us, 2 * empty_us * 1e-3);
  else
    text += fmt::format("  no launches on a CPU; an empty parallel loop on {} threads takes {:.3f} us\n",
                        report.threads, empty_us);

  return text;
}

std::string conclusions_text(const Report& report, TextStyle style) {
  std::string text = heading("Five predictions", style);
  int number = 0;
  for (const lesson::Prediction& p : predictions(report)) {
    std::string outcome = lesson::outcome_name(p.outcome);
    if (p.outcome == lesson::Outcome::held) outcome = good(outcome, style);
    if (p.outcome == lesson::Outcome::failed) outcome = bad(outcome, style);
    text += fmt::format("  {}. {}: {}\n", ++number, p.name, outcome);
    if (!p.figures.empty()) text += paragraph(p.figures, 5);
    text += paragraph(p.reason, 5);
  }
  if (!report.pitfalls.empty()) text += heading("Pitfalls", style);
  number = 0;
  for (const Pitfall& p : report.pitfalls) {
    text += fmt::format("  {}. {}\n", ++number, p.name);
    if (!p.figures.empty()) text += paragraph(p.figures, 5);
    text += paragraph(p.meaning, 5);
  }
  text += heading("What this means", style);
  text += paragraph(meaning(report), 2);
  if (!any_ran(report))
    text += "  " + bad("no path ran, so no gate was applied", style) + "\n";
  else
    text += "  " + (passed(report) ? good("every gate passed", style) : bad("a gate FAILED", style)) + "\n";
  return text;
}

}  // namespace runmax::lab
