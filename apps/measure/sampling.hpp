// When to stop repeating a measurement: enough samples and enough time, or too much of it.
#pragma once

#include <functional>

#include "lesson/statistics.hpp"
#include "runmax/status.hpp"

namespace runmax::measure {

using lesson::summarize;
using lesson::Summary;

// Times are milliseconds of measured work; what prepares a sample is not counted.
struct SamplingRule {
  int enough_samples = 9;
  double enough_ms = 100;
  int least_samples = 3;  // taken even if they are slow ...
  double patience_ms = 1500;
  double limit_ms = 20000;  // ... unless this much is spent
};

// True if no further sample is wanted.
bool enough(const SamplingRule& rule, int samples, double total_ms);

// Repeats `sample`, which returns milliseconds, until the rule is met. The first error ends it.
Result<Summary> repeat(const SamplingRule& rule, const std::function<Result<double>()>& sample);

}  // namespace runmax::measure
