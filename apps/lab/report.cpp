#include "lab/report.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "measure/units.hpp"

namespace runmax::lab {
namespace {

std::optional<double> over(const std::optional<Summary>& a, const std::optional<Summary>& b) {
  if (!a || !b || b->median <= 0) return std::nullopt;
  return a->median / b->median;
}

// "3.2x faster" or "1.4x slower" for the time of one over the time of the other.
std::string speed_words(double ratio) {
  if (ratio > 1) return fmt::format("{:.2f}x faster", ratio);
  return fmt::format("{:.2f}x slower", 1 / ratio);
}

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
      return "ok";
    case Outcome::failed:
      return "failed";
    case Outcome::refused:
      return "refused";
    case Outcome::skipped:
      return "skipped";
  }
  return "";
}

const PathResult* Report::find(std::int64_t n, std::string_view path) const {
  for (const PathResult& result : results)
    if (result.n == n && result.path == path) return &result;
  return nullptr;
}

bool any_ran(const Report& report) {
  return std::any_of(report.results.begin(), report.results.end(),
                     [](const PathResult& r) { return r.ran(); });
}

bool passed(const Report& report) {
  for (const PathResult& result : report.results) {
    if (result.outcome == Outcome::failed) return false;
    if (!result.ran()) continue;
    if (!result.against_reference.passed) return false;
    if (result.against_naive && !result.against_naive->passed) return false;
  }
  return any_ran(report);
}

std::vector<Ratio> ratios(const Report& report) {
  std::vector<Ratio> list;
  for (const lesson::Costs& costs : report.costs) {
    Ratio ratio;
    ratio.n = costs.n;
    const PathResult* naive = report.find(costs.n, "naive");
    const PathResult* online = report.find(costs.n, "online");
    const PathResult* engine = report.find(costs.n, "runmax");
    if (naive && online) {
      ratio.naive_over_online = over(naive->warm, online->warm);
      ratio.naive_over_online_cold = over(naive->cold, online->cold);
    }
    if (naive && engine) ratio.naive_over_runmax = over(naive->warm, engine->warm);
    list.push_back(ratio);
  }
  return list;
}

std::vector<Skipped> skipped(const Report& report) {
  std::vector<Skipped> list;
  for (const lesson::Costs& costs : report.costs) {
    Skipped line;
    line.n = costs.n;
    line.bytes = costs.skipped_bytes;
    line.at_copy_rate_ms =
        lesson::milliseconds_for(static_cast<double>(costs.skipped_bytes), report.limits.copy_rate.median);
    const PathResult* naive = report.find(costs.n, "naive");
    const PathResult* online = report.find(costs.n, "online");
    if (naive && online && naive->warm && online->warm)
      line.naive_minus_online_ms = naive->warm->median - online->warm->median;
    line.naive_matrices_bytes = 2 * costs.score_bytes;
    line.fits_cache = line.naive_matrices_bytes <= report.limits.cache_bytes;
    list.push_back(line);
  }
  return list;
}

std::vector<lesson::Prediction> predictions(const Report& report) {
  std::vector<lesson::SizeFigures> sizes;
  for (const lesson::Costs& costs : report.costs) {
    const PathResult* naive = report.find(costs.n, "naive");
    const PathResult* online = report.find(costs.n, "online");
    if (!naive || !online || !naive->ran() || !online->ran() || !online->against_naive || !naive->warm ||
        !online->warm)
      continue;
    lesson::SizeFigures size;
    size.n = costs.n;
    size.gates_passed =
        naive->against_reference.passed && online->against_reference.passed && online->against_naive->passed;
    size.naive_gate_fraction = naive->against_reference.gate_fraction;
    size.online_gate_fraction = online->against_reference.gate_fraction;
    size.online_vs_naive_gate_fraction = online->against_naive->gate_fraction;
    size.naive_max_abs_error = naive->against_reference.max_abs_error;
    size.online_max_abs_error = online->against_reference.max_abs_error;
    size.naive_ms = naive->warm->median;
    size.online_ms = online->warm->median;
    sizes.push_back(size);
  }
  return lesson::five_predictions(sizes, report.resources, report.why_no_resources);
}

std::string launch_bound_note(const Report& report) {
  std::string places;
  for (const PathResult& r : report.results) {
    const double launches_ms = r.launches * report.limits.empty_launch_ms.median;
    if (!r.warm || r.launches == 0 || r.warm->median > 1.25 * launches_ms) continue;
    places += fmt::format("{}{} at N = {} ({:.1f} us, {} launches)", places.empty() ? "" : ", ", r.path, r.n,
                          r.warm->median * 1e3, r.launches);
  }
  if (places.empty()) return places;
  return fmt::format(
      "The host launches a kernel every {:.1f} us, and that is what the warm times of {} show.",
      report.limits.empty_launch_ms.median * 1e3, places);
}

namespace {

// Why the ratio is what it is, as far as the figures tell.
std::vector<std::string> reasons(const Report& report, const PathResult& naive, const PathResult& online,
                                 double ratio) {
  if (ratio > 1) return {"Here deleting the matrix also pays in time."};
  std::vector<std::string> list;
  const std::int64_t matrices = 2 * lesson::attention_costs(naive.n, head_dim).score_bytes;
  if (matrices <= report.limits.cache_bytes)
    list.push_back(
        "The stored matrices fit in this machine's last-level cache, so the bytes that online deletes were "
        "cheap.");
  const std::int64_t blocks = (online.n + lesson::query_rows_per_block - 1) / lesson::query_rows_per_block;
  if (report.device.device.kind == DeviceKind::cuda && blocks < report.device.multiprocessors)
    list.push_back(fmt::format("Online's {} blocks leave {} of {} multiprocessors idle.", blocks,
                               report.device.multiprocessors - blocks, report.device.multiprocessors));
  if (naive.fma_share > 0 && online.fma_share > 0)
    list.push_back(
        fmt::format("Naive reaches {:.1f} % of the FMA rate and online {:.1f} %: how the arithmetic is done "
                    "decides here, and the win is in memory, not in time.",
                    100 * naive.fma_share, 100 * online.fma_share));
  return list;
}

}  // namespace

std::string meaning(const Report& report) {
  std::string text;
  const auto say = [&](const std::string& sentence) { text += (text.empty() ? "" : " ") + sentence; };
  if (!any_ran(report)) return "No path ran, so nothing can be said.";
  if (!passed(report))
    say("Not every gate passed, so the times are those of wrong or unchecked answers and mean nothing.");
  // The longest length at which both of the lesson's paths were timed.
  const std::vector<Ratio> all_ratios = ratios(report);
  for (auto ratio = all_ratios.rbegin(); ratio != all_ratios.rend(); ++ratio) {
    if (!ratio->naive_over_online) continue;
    const PathResult& naive = *report.find(ratio->n, "naive");
    const PathResult& online = *report.find(ratio->n, "online");
    const lesson::Costs costs = lesson::attention_costs(ratio->n, head_dim);
    say(
        fmt::format("At N = {} the online path moves {:.1f}x fewer bytes by arithmetic, held {} instead "
                    "of {}, and was {} than naive.",
                    ratio->n, costs.ratio, bytes_text(online.peak_bytes), bytes_text(naive.peak_bytes),
                    speed_words(*ratio->naive_over_online)));
    for (const std::string& reason : reasons(report, naive, online, *ratio->naive_over_online)) say(reason);
    break;
  }
  for (auto ratio = all_ratios.rbegin(); ratio != all_ratios.rend(); ++ratio) {
    const PathResult* engine = report.find(ratio->n, "runmax");
    if (!engine || !engine->ran() || !engine->warm) continue;
    if (ratio->naive_over_runmax)
      say(fmt::format(
          "The engine's own pick, {}, took {:.4f} ms at N = {} without any matrix: {} than naive.",
          engine->kernel, engine->warm->median, ratio->n, speed_words(*ratio->naive_over_runmax)));
    else
      say(
          fmt::format("The engine's own pick, {}, took {:.1f} ms at N = {} holding {}, where naive did "
                      "not run.",
                      engine->kernel, engine->warm->median, ratio->n, bytes_text(engine->peak_bytes)));
    break;
  }
  if (text.empty()) say("Nothing was timed, so nothing can be said.");
  return text;
}

Result<double> share_of_peak(double flops, double seconds, double peak) {
  const double share = flops / seconds / peak;
  // Written so that a NaN is an error too.
  if (!(share <= share_slack))
    return Status(
        StatusCode::internal_error,
        fmt::format("measurement: {:.1f} GFLOP/s were measured, more than the {:.1f} GFLOP/s of the FMA "
                    "probe, so one of the two is wrong",
                    flops / seconds * 1e-9, peak * 1e-9));
  return std::min(share, 1.0);
}

}  // namespace runmax::lab
