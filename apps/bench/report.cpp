#include "bench/report.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace runmax::bench {

std::string_view limit_name(Limit limit) {
  switch (limit) {
    case Limit::fma:
      return "fma";
    case Limit::tensor_third:
      return "tensor/3";
    case Limit::tensor:
      return "tensor";
    case Limit::read:
      return "read";
  }
  return "";
}

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
      return "ok";
    case Outcome::rejected:
      return "rejected";
    case Outcome::wrong:
      return "wrong";
    case Outcome::refused:
      return "refused";
  }
  return "";
}

measure::Summary Timing::time() const { return measure::summarize(seconds); }

std::vector<double> Timing::shares() const {
  const double peak = measure::summarize(compute_seconds).median,
               read = measure::summarize(read_seconds).median;
  std::vector<double> shares;
  for (std::size_t round = 0; round < seconds.size(); ++round)
    shares.push_back(std::max(std::min(compute_seconds[round], peak), std::min(read_seconds[round], read)) /
                     seconds[round]);
  return shares;
}

double Timing::share() const { return measure::summarize(shares()).median; }

double Timing::best_share() const {
  const std::vector<double> all = shares();
  return all.empty() ? 0 : *std::max_element(all.begin(), all.end());
}

Limit Timing::limit() const {
  return measure::summarize(read_seconds).median > measure::summarize(compute_seconds).median ? Limit::read
                                                                                              : compute;
}

const measure::Summary* Limits::read(std::size_t problem, measure::CacheState cache) const {
  const std::vector<measure::Summary>& all = cache == measure::CacheState::warm ? read_warm : read_cold;
  return problem < all.size() && all[problem].samples > 0 ? &all[problem] : nullptr;
}

bool Report::passed() const {
  bool timed = false;
  for (const Entry& entry : entries) {
    if (entry.outcome == Outcome::rejected || entry.outcome == Outcome::wrong) return false;
    timed = timed || entry.outcome == Outcome::ok;
  }
  return timed;
}

std::optional<measure::Summary> paired_ratio(const Timing& numerator, const Timing& denominator) {
  std::vector<double> ratios;
  for (std::size_t round = 0; round < std::min(numerator.seconds.size(), denominator.seconds.size()); ++round)
    ratios.push_back(numerator.seconds[round] / denominator.seconds[round]);
  if (ratios.empty()) return std::nullopt;
  return measure::summarize(std::move(ratios));
}

void judge_shares(Entry& entry) {
  for (const Way way : {Way::warm, Way::cold, Way::graph}) {
    const Timing& timing = entry.timing(way);
    // Written so that a NaN is an error too.
    if (entry.outcome != Outcome::ok || timing.seconds.empty() || timing.share() <= 1) continue;
    entry.outcome = Outcome::wrong;
    entry.reason = fmt::format("{}: {:.3f} of the {} limit: the limit was measured wrongly",
                               way == Way::graph ? "graph" : measure::cache_name(cache_of(way)),
                               timing.share(), limit_name(timing.limit()));
  }
}

std::string_view clock_name(DeviceKind kind, Way way) {
  if (kind == DeviceKind::cpu) return "host";
  return way == Way::graph ? "graph" : "events";
}

std::string method(DeviceKind kind) {
  if (kind == DeviceKind::cuda)
    return "problem by problem; rounds over all implementations, every other one in reverse order. events: "
           "CUDA "
           "events; warm: runs back to back for 50 ms or more, straight after untimed ones; cold: one run "
           "after a buffer of "
           "twice the L2 was overwritten (so with what an event adds, 1 to 3 us). graph: two graphs of "
           "dependent "
           "runs, one with graph_nodes runs more than the other; the difference of their replays over that "
           "number. "
           "Limits, beside each sample: FP32 multiply-adds in registers, fp16 tensor-core products on random "
           "data, "
           "reading as many bytes as the problem has in the same cache state. Time: the median; spread: half "
           "of the "
           "interquartile range over it. Share of the limit: the median over rounds of max(flops / peak, "
           "bytes / read "
           "rate) / time, where the peak of f32 is the larger of the FMA rate and a third of the tensor rate";
  return "steady clock; rounds over all problems and implementations, every other one in reverse order. "
         "warm: straight "
         "after a run of the same (none before runs of more than 0.2 s); short runs are repeated for 2 ms. "
         "cold: one run "
         "after every cache line of inputs, outputs and workspace was flushed. Limits: the FMA rate of "
         "registers alone, "
         "before and after each sample (the larger counts); reading as many bytes as the problem has, in the "
         "same cache "
         "state. Time: the median; spread: half of the interquartile range over it. Share of the limit: the "
         "median over "
         "rounds of max(flops / FMA rate, bytes / read rate) / time";
}

}  // namespace runmax::bench
