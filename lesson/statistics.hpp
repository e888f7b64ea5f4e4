// What is kept of a set of time samples: the median and how far the middle half of them spreads (C++17,
// pure).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace runmax {
namespace lesson {

struct Summary {
  double median = 0;   // in the unit of the samples
  double spread = 0;   // half of the interquartile range over the median; 0 for fewer than 2 samples
  double fastest = 0;  // the smallest sample
  int samples = 0;
};

// The q-quantile of sorted samples, linear between neighbours.
inline double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// All zero for no samples.
inline Summary summarize(std::vector<double> samples) {
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

}  // namespace lesson
}  // namespace runmax
