// The gate of gradients (C++17): dQ row by row, dK and dV key by key, each within its own error scale.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "../reference/gradient_reference.hpp"
#include "rounded.hpp"
#include "tolerance.hpp"
#include "verdict.hpp"
#include "wide.hpp"

namespace runmax {
namespace gate {

// The c of a gradient's term c * epsilon * S: twice forward's, for the weight and for O in delta, and one for
// the rounding of LSE (docs/numerics.md, "Gradients").
constexpr double gradient_score_factor = 2 * hostile_score_factor + 1;

// The type of a gradient, as far as its bound depends on it.
struct GradientType {
  double share = 1;            // of the bounds of FP32
  double smallest = 0x1p-149;  // what a sum's terms are rounded to a multiple of
  // fp16, bf16: Q, K, V and dO are exact as given, O and the gradients were rounded once.
  const Rounding* rounding = nullptr;

  // Below this O is known no better than at it (GradientReference::set_least_output).
  double least_output() const { return rounding ? rounding->smallest / (2 * rounding->unit) : 0; }
};
constexpr GradientType gradient_f32{};
constexpr GradientType gradient_f64{wide_share, 0x1p-1074, nullptr};
constexpr GradientType gradient_f16{1, 0x1p-149, &rounding_f16};
constexpr GradientType gradient_bf16{1, 0x1p-149, &rounding_bf16};

// |got - want| <= E = lesson_rtol(n) * A* + c * epsilon * (A S)*, with A* = A + 2^-16 * (largest A of the
// row), in f64 times 2^-29. n is the longest sum that enters: the keys of a row, or the query rows of a
// group. 16-bit types: E + unit * A* for the rounding of O, except in dV, and then one rounding of the
// gradient.
class GradientGate {
 public:
  // `tensor` is "dq", "dk", "dv", "dbias" or "dsink", and must outlive the gate.
  GradientGate(const char* tensor, std::int64_t n, GradientType type = gradient_f32)
      : tensor_(tensor),
        n_(n),
        type_(type),
        of_output_(type.rounding && std::string(tensor) != "dv" ? type.rounding->unit : 0) {}

  // One row of dQ.
  template <class Real, class Got>
  void add_row(std::int64_t batch, std::int64_t head, std::int64_t row,
               const reference::RowGradient<Real>& want, const Got* got, std::int64_t stride) {
    add(batch, head, row, want.dq.data(), want.magnitude.data(), static_cast<const Real*>(nullptr),
        static_cast<double>(want.score_magnitude), want.dq.size(), got, stride);
  }

  // One key of dK or dV: `dim` elements from `at` on of the arrays.
  template <class Real, class Got>
  void add_key(std::int64_t batch, std::int64_t head, std::int64_t key, const std::vector<Real>& want,
               const std::vector<Real>& magnitude, const std::vector<Real>& score_magnitude, std::size_t at,
               std::size_t dim, const Got* got, std::int64_t stride) {
    add(batch, head, key, want.data() + at, magnitude.data() + at, score_magnitude.data() + at, 0, dim, got,
        stride);
  }

  // One element of its own scale, as of dBias or dSink, which are never rounded to 16 bits: a sum of
  // magnitude `magnitude`, and of the same with each term times its row's S.
  void add_element(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t key, double want,
                   double magnitude, double score_magnitude, double got) {
    collector_.add(batch, head, row, key, got, want, computed_within(magnitude, score_magnitude), tensor_);
  }

  Verdict verdict() const { return collector_.verdict(); }
  std::string rule() const {
    char text[160];
    std::snprintf(text, sizeof text, "%smax(1e-5, 4*2^-23*sqrt(%lld)) = %.3e + %g*2^-23*S%s",
                  type_.share == 1 ? "" : "2^-29 of ", static_cast<long long>(n_), lesson_rtol(n_),
                  gradient_score_factor,
                  type_.rounding ? (" + rounding by " + std::string(type_.rounding->name)).c_str() : "");
    return text;
  }
  const char* tensor() const { return tensor_; }

 private:
  // The bound of a gradient before it is rounded to 16 bits.
  double computed_within(double magnitude, double score_magnitude) const {
    const double plain =
        type_.share * (lesson_rtol(n_) * magnitude + gradient_score_factor * epsilon * score_magnitude) +
        static_cast<double>(n_ + 1) * type_.smallest;
    return plain * (1 + of_output_) + of_output_ * magnitude;
  }

  // Without `weighed`, the terms of an element share one S.
  template <class Real, class Got>
  void add(std::int64_t batch, std::int64_t head, std::int64_t row, const Real* want, const Real* magnitude,
           const Real* weighed, double score_magnitude, std::size_t dim, const Got* got,
           std::int64_t stride) {
    double floor = 0, weighed_floor = 0;
    for (std::size_t c = 0; c < dim; ++c) {
      if (magnitude[c] > floor) floor = static_cast<double>(magnitude[c]);
      if (weighed && weighed[c] > weighed_floor) weighed_floor = static_cast<double>(weighed[c]);
    }
    for (std::size_t c = 0; c < dim; ++c) {
      const double a = static_cast<double>(magnitude[c]) + 0x1p-16 * floor;
      const double a_s =
          weighed ? static_cast<double>(weighed[c]) + 0x1p-16 * weighed_floor : a * score_magnitude;
      const auto value = static_cast<double>(got[static_cast<std::int64_t>(c) * stride]);
      RoundedTarget target{static_cast<double>(want[c]), computed_within(a, a_s)};
      if (type_.rounding) target = rounded_target(*type_.rounding, target.want, target.bound, value);
      collector_.add(batch, head, row, static_cast<std::int64_t>(c), value, target.want, target.bound,
                     tensor_);
    }
  }

  const char* tensor_;
  std::int64_t n_;
  GradientType type_;
  double of_output_;  // what the rounding of O adds, as a part of A*
  Collector collector_;
};

}  // namespace gate
}  // namespace runmax
