// The gates (C++17): each takes the rows of an answer one by one and gives a verdict.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include "../reference/reference.hpp"
#include "tolerance.hpp"
#include "verdict.hpp"

namespace runmax {
namespace gate {

using reference::Row;

// "max(1e-5, 4*2^-23*sqrt(256)) = 1.000e-05": the arithmetic that stands beside each gate fraction.
inline std::string lesson_rule(std::int64_t n) {
  char text[96];
  std::snprintf(text, sizeof text, "max(1e-5, 4*2^-23*sqrt(%lld)) = %.3e", static_cast<long long>(n),
                lesson_rtol(n));
  return text;
}

// No NaN and no infinity where the reference is finite, whatever the error. A denominator that underflows
// gives NaN rather than a wrong number, and is rejected here by name.
class FinitenessGate {
 public:
  void add_row(std::int64_t batch, std::int64_t head, std::int64_t row, const Row<double>& want,
               const float* got, std::int64_t stride) {
    for (std::size_t c = 0; c < want.out.size(); ++c) {
      const double value = got[static_cast<std::int64_t>(c) * stride];
      // Where the reference itself is not finite there is nothing to ask here; the other gates compare kinds.
      const double asked = std::isfinite(want.out[c]) ? want.out[c] : value;
      collector_.add(batch, head, row, static_cast<std::int64_t>(c), value, asked,
                     std::numeric_limits<double>::infinity());
    }
  }

  Verdict verdict() const { return collector_.verdict(); }

 private:
  Collector collector_;
};

// |o - want| <= lesson_rtol(n) * A*, up to the spacing of subnormals, and every value finite. Meant for data
// of ordinary size; hostile inputs have HostileGate.
class LessonGate {
 public:
  explicit LessonGate(std::int64_t n) : n_(n) {}

  void add_row(std::int64_t batch, std::int64_t head, std::int64_t row, const Row<double>& want,
               const float* got, std::int64_t stride) {
    const Scale scale(want);
    for (std::size_t c = 0; c < want.out.size(); ++c)
      collector_.add(batch, head, row, static_cast<std::int64_t>(c),
                     got[static_cast<std::int64_t>(c) * stride], want.out[c],
                     lesson_rtol(n_) * scale[c] + subnormal_slack(n_));
  }

  // Against another float path; the scale stays that of the reference's row.
  void add_row_against(std::int64_t batch, std::int64_t head, std::int64_t row, const Row<double>& scale_row,
                       const float* want, std::int64_t want_stride, const float* got,
                       std::int64_t got_stride) {
    const Scale scale(scale_row);
    for (std::size_t c = 0; c < scale_row.out.size(); ++c) {
      const auto channel = static_cast<std::int64_t>(c);
      collector_.add(batch, head, row, channel, got[channel * got_stride], want[channel * want_stride],
                     lesson_rtol(n_) * scale[c]);
    }
  }

  Verdict verdict() const { return collector_.verdict(); }
  std::string rule() const { return lesson_rule(n_); }

 private:
  std::int64_t n_;
  Collector collector_;
};

// |o - want| <= (lesson_rtol(n) + c * eps * S [+ eps * n / 2]) * A*: any input, any honest FP32 kernel.
class HostileGate {
 public:
  HostileGate(std::int64_t n, SequentialSum sum) : n_(n), sum_(sum) {}

  void add_row(std::int64_t batch, std::int64_t head, std::int64_t row, const Row<double>& want,
               const float* got, std::int64_t stride) {
    const Scale scale(want);
    const double rtol = hostile_rtol(n_, want.score_magnitude, sum_);
    for (std::size_t c = 0; c < want.out.size(); ++c)
      collector_.add(batch, head, row, static_cast<std::int64_t>(c),
                     got[static_cast<std::int64_t>(c) * stride], want.out[c],
                     rtol * scale[c] + subnormal_slack(n_));
  }

  Verdict verdict() const { return collector_.verdict(); }
  std::string rule() const {
    char text[64];
    std::snprintf(text, sizeof text, " + %g*2^-23*S%s", hostile_score_factor,
                  sum_ == SequentialSum::allowed ? " + 2^-24*n" : "");
    return lesson_rule(n_) + text;
  }

 private:
  std::int64_t n_;
  SequentialSum sum_;
  Collector collector_;
};

// Largest error / A* at most twice that of a plain FP32 (`ieee`) path on the same data, or 5e-7. One-sign V
// lets even TF32 through the lesson gate at long n; this bar does not.
class SecondBar {
 public:
  void add_row(std::int64_t batch, std::int64_t head, std::int64_t row, const Row<double>& want,
               const float* got, std::int64_t got_stride, const float* ieee, std::int64_t ieee_stride) {
    const Scale scale(want);
    // Where the ieee path is itself not finite it neither widens the bar nor leaves the floor alone as a bar.
    bool comparable = true;
    for (std::size_t c = 0; c < want.out.size(); ++c)
      if (std::isfinite(want.out[c]) && !std::isfinite(ieee[static_cast<std::int64_t>(c) * ieee_stride]))
        comparable = false;
    if (comparable) ++rows_;
    for (std::size_t c = 0; c < want.out.size(); ++c) {
      const auto channel = static_cast<std::int64_t>(c);
      const double value = got[channel * got_stride];
      collector_.add(batch, head, row, channel, value, want.out[c], std::numeric_limits<double>::infinity());
      if (!comparable) continue;
      const double of_ieee = relative(ieee[channel * ieee_stride], want.out[c], scale[c]);
      if (std::isfinite(of_ieee)) ieee_error_ = std::max(ieee_error_, of_ieee);
      const double error = relative(value, want.out[c], scale[c]);
      if (!(error > error_)) continue;
      error_ = error;
      worst_ = {batch, head, row, channel, value, want.out[c], scale[c]};
    }
  }

  // Fraction and bound are those of the element with the largest error / A*.
  Verdict verdict() const {
    Verdict verdict = collector_.verdict();
    const double bar = this->bar();
    if (rows_ == 0) verdict.passed = false;
    verdict.worst = worst_;
    verdict.worst.bound *= bar;
    verdict.gate_fraction = verdict.passed ? error_ / bar : std::numeric_limits<double>::infinity();
    if (verdict.passed && error_ > bar) {
      verdict.passed = false;
      verdict.failed = 1;
      verdict.has_offender = true;
      verdict.offender = verdict.worst;
    }
    return verdict;
  }

  // False: too few rows for the verdict to mean anything; rows are those where the ieee path is finite.
  bool comparable() const { return rows_ >= second_bar_fewest_rows; }
  std::int64_t rows() const { return rows_; }

  double error() const { return error_; }
  double ieee_error() const { return ieee_error_; }
  double bar() const { return std::max(2 * ieee_error_, second_bar_floor); }
  std::string rule() const {
    char text[96];
    std::snprintf(text, sizeof text, "max(2 * %.3e, 5e-7) = %.3e", ieee_error_, bar());
    return text;
  }

 private:
  static double relative(double got, double want, double scale) {
    if (within(got, want, 0)) return 0;
    return scale > 0 ? std::abs(got - want) / scale : std::numeric_limits<double>::infinity();
  }

  Collector collector_;  // kind of value only: its bound is infinite
  std::int64_t rows_ = 0;
  double error_ = 0, ieee_error_ = 0;
  Offender worst_;
};

// |lse - want| <= max(1e-5, 2e-6 * |want|) + c * eps * S [+ eps * n / 2]; -inf exactly where no key is
// visible.
class LseGate {
 public:
  explicit LseGate(std::int64_t n = 0, SequentialSum sum = SequentialSum::not_allowed) : n_(n), sum_(sum) {}

  void add(std::int64_t batch, std::int64_t head, std::int64_t row, const Row<double>& want, float got) {
    collector_.add(batch, head, row, -1, got, want.lse, lse_bound(want.lse, want.score_magnitude, n_, sum_));
  }

  Verdict verdict() const { return collector_.verdict(); }
  std::string rule() const {
    char text[96];
    std::snprintf(text, sizeof text, "max(1e-5, 2e-6*|lse|) + %g*2^-23*S%s", hostile_score_factor,
                  sum_ == SequentialSum::allowed ? " + 2^-24*n" : "");
    return text;
  }

 private:
  std::int64_t n_;
  SequentialSum sum_;
  Collector collector_;
};

}  // namespace gate
}  // namespace runmax
