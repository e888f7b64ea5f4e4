#include "bench/report.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace runmax::bench {

std::string_view limit_name(Limit limit) { return limit == Limit::fma ? "fma" : "read"; }

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
  const double fma = measure::summarize(fma_seconds).median, read = measure::summarize(read_seconds).median;
  std::vector<double> shares;
  for (std::size_t round = 0; round < seconds.size(); ++round)
    shares.push_back(std::max(std::min(fma_seconds[round], fma), std::min(read_seconds[round], read)) /
                     seconds[round]);
  return shares;
}

double Timing::share() const { return measure::summarize(shares()).median; }

double Timing::best_share() const {
  const std::vector<double> all = shares();
  return all.empty() ? 0 : *std::max_element(all.begin(), all.end());
}

Limit Timing::limit() const {
  return measure::summarize(read_seconds).median > measure::summarize(fma_seconds).median ? Limit::read
                                                                                          : Limit::fma;
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
  for (const measure::CacheState cache : {measure::CacheState::warm, measure::CacheState::cold}) {
    const Timing& timing = entry.timing(cache);
    // Written so that a NaN is an error too.
    if (entry.outcome != Outcome::ok || timing.seconds.empty() || timing.share() <= 1) continue;
    entry.outcome = Outcome::wrong;
    entry.reason = fmt::format("{}: {:.3f} of the {} limit: the limit was measured wrongly",
                               measure::cache_name(cache), timing.share(), limit_name(timing.limit()));
  }
}

std::string method() {
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
