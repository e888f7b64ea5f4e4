#include "bench/limits.hpp"

#include <algorithm>

namespace runmax::bench {
namespace {

constexpr double least_warm_bytes = 1 << 20;
// Reading less than this from memory takes no longer than starting the threads does.
constexpr double least_cold_bytes = 32 << 20;

}  // namespace

Scaling measure_scaling(int threads) {
  constexpr int most_tries = 5;
  Scaling best;
  best.threads = threads;
  best.one_thread = measure::cpu_fma_rate(1);
  best.all_threads = best.one_thread;
  best.tries = 1;
  if (threads == 1) return best;
  for (int attempt = 1; attempt <= most_tries; ++attempt) {
    best.one_thread = std::max(best.one_thread, measure::cpu_fma_rate(1));
    best.all_threads = std::max(attempt == 1 ? 0.0 : best.all_threads, measure::cpu_fma_rate(threads));
    best.tries = attempt;
    if (best.holds()) break;
  }
  return best;
}

double quick_fma_rate(int threads) { return measure::cpu_fma_rate(threads, {.pieces = 20, .trials = 1}); }

Result<ReadLimit> ReadLimit::make(double bytes) {
  Result<measure::ReadProbe> warm =
      measure::ReadProbe::make(static_cast<std::size_t>(std::max(bytes, least_warm_bytes)));
  if (!warm.ok()) return warm.status();
  Result<measure::ReadProbe> cold =
      measure::ReadProbe::make(static_cast<std::size_t>(std::max(bytes, least_cold_bytes)));
  if (!cold.ok()) return cold.status();
  ReadLimit limit;
  limit.warm_ = std::move(warm.value());
  limit.cold_ = std::move(cold.value());
  return limit;
}

double ReadLimit::sample(int threads, measure::CacheState cache) const {
  return (cache == measure::CacheState::cold ? cold_ : warm_).sample(threads, cache);
}

}  // namespace runmax::bench
