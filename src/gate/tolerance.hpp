// How far an answer may be from the reference (C++17). docs/numerics.md derives every constant.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "../reference/reference.hpp"

namespace runmax {
namespace gate {

// Distance from 1 to the next float.
constexpr double epsilon = 0x1p-23;

// The c of the hostile gate's term c * epsilon * S: tested, not proved.
constexpr double hostile_score_factor = 4.0;

// Below this multiple of A* the second bar asks for nothing better.
constexpr double second_bar_floor = 5e-7;

// The second bar compares the largest errors of two paths. Over fewer rows either is a matter of luck.
constexpr std::int64_t second_bar_fewest_rows = 256;

// max(1e-5, 4 * 2^-23 * sqrt(n)): the lesson's rule with the depth set to n keys.
inline double lesson_rtol(std::int64_t n) {
  return std::max(1e-5, 4 * epsilon * std::sqrt(static_cast<double>(n)));
}

// Whether a plain sequential FP32 sum is allowed its epsilon * n / 2. The engine itself is held without it.
enum class SequentialSum { allowed, not_allowed };

// Factor of A* in the hostile gate: S is the row's score_magnitude.
inline double hostile_rtol(std::int64_t n, double score_magnitude, SequentialSum sum) {
  return lesson_rtol(n) + hostile_score_factor * epsilon * score_magnitude +
         (sum == SequentialSum::allowed ? epsilon * static_cast<double>(n) / 2 : 0.0);
}

// Absolute part of the lesson gate and of the hostile gate, without which the reference rounded to FP32 might
// fail: each of n terms and the division may round to a multiple of 2^-149.
inline double subnormal_slack(std::int64_t n) { return static_cast<double>(n + 1) * 0x1p-149; }

// Bound of |LSE - reference|. A relative error of the sum is an absolute one of its logarithm.
inline double lse_bound(double lse, double score_magnitude, std::int64_t n, SequentialSum sum) {
  return std::max(1e-5, 2e-6 * std::abs(lse)) + hostile_score_factor * epsilon * score_magnitude +
         (sum == SequentialSum::allowed ? epsilon * static_cast<double>(n) / 2 : 0.0);
}

// A* = A + 2^-16 * (largest A of the row): what errors of a row's elements are measured in.
class Scale {
 public:
  explicit Scale(const reference::Row<double>& row) : row_(row) {
    for (const double a : row.magnitude)
      if (a > floor_) floor_ = a;
    floor_ *= 0x1p-16;
  }
  double operator[](std::size_t channel) const { return row_.magnitude[channel] + floor_; }

 private:
  const reference::Row<double>& row_;
  double floor_ = 0;
};

}  // namespace gate
}  // namespace runmax
