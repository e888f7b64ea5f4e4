#include "lab/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace runmax::lab {
namespace {

// The q-quantile of sorted samples, linear between neighbours.
double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Summary summarize(std::vector<double> samples) {
  Summary summary;
  if (samples.empty()) return summary;
  std::sort(samples.begin(), samples.end());
  summary.samples = static_cast<int>(samples.size());
  summary.median = quantile(samples, 0.5);
  summary.fastest = samples.front();
  if (samples.size() > 1 && summary.median > 0)
    summary.spread = (quantile(samples, 0.75) - quantile(samples, 0.25)) / 2 / summary.median;
  return summary;
}

}  // namespace runmax::lab
