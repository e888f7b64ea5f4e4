// The report as text, for a reader who sees it scroll by: one section a function.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

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

constexpr std::size_t columns = 80;

std::string prose(const std::string& words, std::size_t indent = 2) {
  return measure::paragraph(words, indent, columns);
}

// A bar as long as `share` of 12 cells, in eighths of a cell, and blank to the 12th.
std::string bar_cell(double share) {
  constexpr int cells = 12;
  static constexpr const char* parts[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * cells * 8));
  std::string text;
  for (int cell = 0; cell < cells; ++cell) {
    const int part = std::clamp(eighths - 8 * cell, 0, 8);
    text += part == 8 ? "█" : parts[part];
  }
  return text;
}

// The longest warm time of any path at this length.
double slowest(const Report& report, std::int64_t n) {
  double longest = 0;
  for (const PathResult& r : report.results)
    if (r.n == n && r.warm) longest = std::max(longest, r.warm->median);
  return longest;
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
    text += prose(fmt::format("{}: sm_{}, {} multiprocessors, {} memory ({} free), L2 {}, driver {}", d.name,
                              d.compute_capability, d.multiprocessors, bytes_text(d.memory_bytes),
                              bytes_text(d.free_bytes), bytes_text(d.l2_bytes), report.driver));
  else
    text += prose(fmt::format("{}: {} threads, {}, {} memory ({} free), last-level cache {}", d.name,
                              report.threads, d.simd, bytes_text(d.memory_bytes), bytes_text(d.free_bytes),
                              bytes_text(report.limits.cache_bytes)));
  text += fmt::format("  one head, d = {}, FP32, seed {}\n", head_dim, report.seed);
  return text;
}

std::string costs_text(const Report& report, TextStyle style) {
  std::string text = heading("What the matrix costs", style);
  Table bytes({"N", "score matrix", "naive moves", "floor", "ratio", "online asks for"});
  Table work({"N", "GFLOP", "naive FLOP/B", "online FLOP/B"});
  for (const lesson::Costs& c : report.costs) {
    bytes.add({std::to_string(c.n), bytes_text(c.score_bytes), bytes_text(c.naive_bytes),
               bytes_text(c.floor_bytes), fmt::format("{:.1f}x", c.ratio),
               bytes_text(c.online_requested_bytes)});
    work.add({std::to_string(c.n), fmt::format("{:.3f}", c.flops * 1e-9),
              fmt::format("{:.1f}", c.naive_intensity), fmt::format("{:.1f}", c.online_intensity)});
  }
  text += bytes.text();
  text += prose(
      "score matrix 4*N^2; naive 20*N^2 + 16*N*d (five passes over the matrix); floor 16*N*d (Q, K, V, O "
      "once); online asks for K and V once per block of 64 queries: whether that reaches memory or stops at "
      "a cache, this program cannot know");
  text += work.text();
  text += prose("FLOP 4*N^2*d; intensity of naive 4*N^2*d / (20*N^2) = 12.8, of online N/4");
  const MachineLimits& m = report.limits;
  const bool gpu = report.device.device.kind == DeviceKind::cuda;
  std::string measured = fmt::format(
      "measured here: copy {} (± {:.1f} %, two buffers of {}), {} inside half of the {} cache, FP32 FMA {}",
      rate_text(m.copy_rate.median, "B/s"), 100 * m.copy_rate.spread, bytes_text(m.copy_bytes),
      rate_text(m.cached_copy_rate.median, "B/s"), gpu ? "L2" : "last-level",
      rate_text(m.fma_rate, "FLOP/s"));
  if (!gpu)
    measured +=
        fmt::format(" on {} threads (one thread: {} and {})", report.threads,
                    rate_text(m.one_thread_copy_rate, "B/s"), rate_text(m.one_thread_fma_rate, "FLOP/s"));
  // A peak is a maximum; under it a GPU's clock falls, so the two do not belong to the same moment.
  if (m.clock_hz > 0)
    measured += fmt::format("; clock {:.0f} MHz{}", m.clock_hz * 1e-6, gpu ? " in the last sample" : "");
  text += prose(measured);
  std::string ridge = fmt::format("ridge point {:.2f} FLOP/B: naive (12.8) lies on the {} side",
                                  report.ridge(), 12.8 < report.ridge() ? "memory" : "arithmetic");
  std::string low, high;
  for (const lesson::Costs& c : report.costs) {
    std::string& side = c.online_intensity < report.ridge() ? low : high;
    side += (side.empty() ? "" : ", ") + std::to_string(c.n);
  }
  if (!high.empty()) ridge += "; online on the arithmetic side at N = " + high;
  if (!low.empty()) ridge += "; online on the memory side at N = " + low;
  text += prose(ridge);
  text += prose("N = 131072: the score matrix of one head alone would take " +
                bytes_text(lesson::attention_costs(131072, head_dim).score_bytes) +
                "; naive runs only if its matrices fit in 80 % of free memory");
  return text;
}

std::string gates_text(const Report& report, TextStyle style) {
  std::string text = heading("Gate", style);
  text += prose(
      "|o - want| <= rtol * A*, A* = sum of p*|v| in double (plus 2^-16 of the row's largest), every value "
      "finite; once against the double-precision reference, once against naive");
  for (const lesson::Costs& c : report.costs)
    text += fmt::format("  N = {}: rtol = {}\n", c.n, gate::lesson_rule(c.n));
  return text;
}

std::string resources_text(const Report& report, TextStyle style) {
  std::string text = heading("Resources", style);
  if (report.resources.empty()) return text + "  not applicable here: " + report.why_no_resources + "\n";
  Table measured({"kernel", "limited by", "threads", "registers", "local B", "occupancy", "predicted"});
  Table predicted({"kernel", "shared B", "predicted", "blocks/SM", "predicted"});
  for (const lesson::ResourceFigures& r : report.resources) {
    measured.add({r.kernel, r.limited_by, std::to_string(r.threads), std::to_string(r.registers),
                  std::to_string(r.local_bytes), fmt::format("{:.1f} %", 100 * r.occupancy),
                  fmt::format("{:.1f} %", 100 * r.expected_occupancy)});
    predicted.add({r.kernel, std::to_string(r.shared_bytes), std::to_string(r.expected_shared_bytes),
                   std::to_string(r.blocks), std::to_string(r.expected_blocks)});
  }
  text += measured.text(2) + predicted.text();
  text += prose(
      "from cudaFuncGetAttributes and cudaOccupancyMaxActiveBlocksPerMultiprocessor, beside arithmetic from "
      "the device's limits; registers are the compiler's choice");
  return text;
}

std::string results_text(const Report& report, TextStyle style) {
  std::string text = heading("Results", style);
  Table answers({"N", "path", "kernel", "max abs err", "gate frac", "vs naive", "gate"});
  Table times({"N", "path", "warm ms", "cold ms", "naive/path", bar_cell(0)});
  Table memory({"N", "path", "memory", "system saw"});
  std::string notes;
  for (const PathResult& r : report.results) {
    const std::string n = std::to_string(r.n);
    if (!r.ran()) {
      answers.add({n, r.path, r.kernel.empty() ? "-" : r.kernel, "-", "-", "-",
                   std::string(outcome_name(r.outcome))});
      notes += prose(fmt::format("N = {}, {}: {}: {}", r.n, r.path, outcome_name(r.outcome), r.reason));
      continue;
    }
    const PathResult* naive = report.find(r.n, "naive");
    std::optional<double> ratio;
    if (naive && naive->warm && r.warm && r.path != "naive") ratio = naive->warm->median / r.warm->median;
    answers.add({n, r.path, r.kernel, fmt::format("{:.3e}", r.against_reference.max_abs_error),
                 fmt::format("{:.4f}", r.against_reference.gate_fraction),
                 r.against_naive ? fmt::format("{:.4f}", r.against_naive->gate_fraction) : "-",
                 r.outcome == Outcome::ok ? "passed" : "FAILED"});
    times.add({n, r.path, time_text(r.warm), time_text(r.cold), ratio_text(ratio),
               bar_cell(r.warm ? r.warm->median / slowest(report, r.n) : 0)});
    memory.add(
        {n, r.path, bytes_text(r.peak_bytes), r.peak_bytes_system ? bytes_text(*r.peak_bytes_system) : "-"});
    if (r.outcome == Outcome::failed)
      notes += "  " + bad("FAILED", style) +
               fmt::format(" N = {}, {}: {}\n  repeat: {}\n", r.n, r.kernel, r.reason, r.repeat);
  }
  text += answers.text(3) + notes + "\n" + times.text(2) + "\n" + memory.text(2);
  notes.clear();
  for (const lesson::Costs& c : report.costs)
    if (const PathResult* r = report.find(c.n, "runmax"); r && r->ran() && r->rows_gated < c.n)
      notes += fmt::format("  N = {}: gated on {} of {} query rows\n", c.n, r->rows_gated, c.n);
  text += notes;
  text += prose("warm: " + report.method_warm) + prose("cold: " + report.method_cold);
  text += prose(std::string("median ± half of the interquartile range; bars: warm, against the slowest at "
                            "that N. memory: inputs, output and workspace held at once, "
                            "as allocated; system saw: ") +
                (report.device.device.kind == DeviceKind::cuda
                     ? "how far the device's free memory fell (it is given out in large pieces)"
                     : "how far this process's resident set rose"));
  text += prose(launch_bound_note(report));
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
    // The verdict stands first, so that colour does not count as width.
    text += fmt::format("  {}. {}\n", ++number, outcome) + prose(p.name, 5);
    if (!p.figures.empty()) text += prose(p.figures, 5);
    text += prose(p.reason, 5);
  }
  if (!report.pitfalls.empty()) text += heading("Pitfalls", style);
  number = 0;
  for (const Pitfall& p : report.pitfalls) {
    text += prose(fmt::format("{}. {}", ++number, p.name));
    if (!p.figures.empty()) text += prose(p.figures, 5);
    text += prose(p.meaning, 5);
  }
  text += heading("What this means", style);
  text += prose(meaning(report));
  if (!any_ran(report))
    text += "  " + bad("no path ran, so no gate was applied", style) + "\n";
  else
    text += "  " + (passed(report) ? good("every gate passed", style) : bad("a gate FAILED", style)) + "\n";
  return text;
}

}  // namespace runmax::lab
