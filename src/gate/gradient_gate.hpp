// The gate of gradients (C++17): dQ row by row, dK and dV key by key, each within its own error scale.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "../reference/gradient_reference.hpp"
#include "tolerance.hpp"
#include "verdict.hpp"

namespace runmax {
namespace gate {

// The c of a gradient's term c * epsilon * S: twice forward's, for the weight and for O in delta, and one for
// the rounding of LSE (docs/numerics.md, "Gradients").
constexpr double gradient_score_factor = 2 * hostile_score_factor + 1;

// |got - want| <= lesson_rtol(n) * A* + c * epsilon * (A S)*, with A* = A + 2^-16 * (largest A of the row).
// n is the longest sum that enters: the keys of a row, or the query rows of a group.
class GradientGate {
 public:
  // `tensor` is "dq", "dk", "dv", "dbias" or "dsink", and must outlive the gate.
  GradientGate(const char* tensor, std::int64_t n) : tensor_(tensor), n_(n) {}

  // One row of dQ.
  void add_row(std::int64_t batch, std::int64_t head, std::int64_t row,
               const reference::RowGradient<double>& want, const float* got, std::int64_t stride) {
    add(batch, head, row, want.dq.data(), want.magnitude.data(), nullptr, want.score_magnitude,
        want.dq.size(), got, stride);
  }

  // One key of dK or dV: `dim` elements from `at` on of the arrays.
  void add_key(std::int64_t batch, std::int64_t head, std::int64_t key, const std::vector<double>& want,
               const std::vector<double>& magnitude, const std::vector<double>& score_magnitude,
               std::size_t at, std::size_t dim, const float* got, std::int64_t stride) {
    add(batch, head, key, want.data() + at, magnitude.data() + at, score_magnitude.data() + at, 0, dim, got,
        stride);
  }

  // One element of its own scale, as of dBias or dSink: a sum of magnitude `magnitude`, and of the same with
  // each term times its row's S.
  void add_element(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t key, double want,
                   double magnitude, double score_magnitude, float got) {
    const double bound =
        lesson_rtol(n_) * magnitude + gradient_score_factor * epsilon * score_magnitude + subnormal_slack(n_);
    collector_.add(batch, head, row, key, static_cast<double>(got), want, bound, tensor_);
  }

  Verdict verdict() const { return collector_.verdict(); }
  std::string rule() const {
    char text[96];
    std::snprintf(text, sizeof text, "max(1e-5, 4*2^-23*sqrt(%lld)) = %.3e + %g*2^-23*S",
                  static_cast<long long>(n_), lesson_rtol(n_), gradient_score_factor);
    return text;
  }
  const char* tensor() const { return tensor_; }

 private:
  // Without `weighed`, the terms of an element share one S.
  void add(std::int64_t batch, std::int64_t head, std::int64_t row, const double* want,
           const double* magnitude, const double* weighed, double score_magnitude, std::size_t dim,
           const float* got, std::int64_t stride) {
    double floor = 0, weighed_floor = 0;
    for (std::size_t c = 0; c < dim; ++c) {
      if (magnitude[c] > floor) floor = magnitude[c];
      if (weighed && weighed[c] > weighed_floor) weighed_floor = weighed[c];
    }
    for (std::size_t c = 0; c < dim; ++c) {
      const double a = magnitude[c] + 0x1p-16 * floor;
      const double a_s = weighed ? weighed[c] + 0x1p-16 * weighed_floor : a * score_magnitude;
      const double bound = lesson_rtol(n_) * a + gradient_score_factor * epsilon * a_s + subnormal_slack(n_);
      collector_.add(batch, head, row, static_cast<std::int64_t>(c),
                     static_cast<double>(got[static_cast<std::int64_t>(c) * stride]), want[c], bound,
                     tensor_);
    }
  }

  const char* tensor_;
  std::int64_t n_;
  Collector collector_;
};

}  // namespace gate
}  // namespace runmax
