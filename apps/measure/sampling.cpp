#include "measure/sampling.hpp"

#include <utility>
#include <vector>

namespace runmax::measure {

bool enough(const SamplingRule& rule, int samples, double total_ms) {
  if (samples == 0) return false;
  if (samples >= rule.enough_samples && total_ms >= rule.enough_ms) return true;
  if (samples >= rule.least_samples && total_ms >= rule.patience_ms) return true;
  return total_ms >= rule.limit_ms;
}

Result<Summary> repeat(const SamplingRule& rule, const std::function<Result<double>()>& sample) {
  std::vector<double> samples;
  double total = 0;
  while (!enough(rule, static_cast<int>(samples.size()), total)) {
    Result<double> ms = sample();
    if (!ms.ok()) return ms.status();
    samples.push_back(ms.value());
    // A sample that the clock cannot tell from 0 still moves on, or the loop would not end.
    total += ms.value() > 1e-4 ? ms.value() : 1e-4;
  }
  return summarize(std::move(samples));
}

}  // namespace runmax::measure
