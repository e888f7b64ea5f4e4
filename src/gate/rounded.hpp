// The gate for answers in a 16-bit type (C++17): FP32 arithmetic, then one rounding of O. docs/numerics.md
// derives the bound.
#pragma once

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

// What rounding to a type costs.
struct Rounding {
  const char* name;
  double unit;      // half the distance from 1 to the next number
  double smallest;  // the smallest positive number
  double overflow;  // what rounds to infinity, from here on
};

constexpr Rounding rounding_f16{"2^-11", 0x1p-11, 0x1p-24, 65520.0};
constexpr Rounding rounding_bf16{"2^-8", 0x1p-8, 0x1p-133, 0x1.ffp127};

// What a value that lay within `before` of `want` may be once it was rounded: within `bound` of `want`, which
// is infinite here where the bound reaches the type's end and `got` is.
struct RoundedTarget {
  double want, bound;
};
inline RoundedTarget rounded_target(const Rounding& rounding, double want, double before, double got) {
  const double size = std::abs(want);
  const double bound = before + rounding.unit * (size + before) + rounding.smallest / 2;
  if (!std::isfinite(want) || size + before < rounding.overflow) return {want, bound};
  const double infinite = std::copysign(std::numeric_limits<double>::infinity(), want);
  return {size - before >= rounding.overflow || got == infinite ? infinite : want, bound};
}

// Whether a kernel rounds its weights to the type as well, to feed a matrix unit: that moves the answer by
// unit * (A* + |want|) more, whether it divides by the sum of the weights before or after.
enum class Weights { exact, rounded };

// |o - want| <= E + unit * (|want| + E) + smallest / 2, E being the bound of HostileGate: the answer before
// it was rounded lies within E of the reference, and rounding moves it by half a spacing at most. Where the
// bound reaches the type's end, infinity is right too; where the reference is beyond it by more, it alone is.
class RoundedGate {
 public:
  RoundedGate(std::int64_t n, const Rounding& rounding, SequentialSum sum, Weights weights = Weights::exact)
      : n_(n), rounding_(rounding), sum_(sum), weights_(weights) {}

  void add_row(std::int64_t batch, std::int64_t head, std::int64_t row, const reference::Row<double>& want,
               const float* got, std::int64_t stride) {
    const Scale scale(want);
    const double rtol = hostile_rtol(n_, want.score_magnitude, sum_);
    for (std::size_t c = 0; c < want.out.size(); ++c) {
      const double value = got[static_cast<std::int64_t>(c) * stride];
      const double size = std::abs(want.out[c]);
      const double of_weights = weights_ == Weights::rounded ? rounding_.unit * (scale[c] + size) : 0.0;
      const double before = rtol * scale[c] + subnormal_slack(n_) + of_weights;
      const RoundedTarget target = rounded_target(rounding_, want.out[c], before, value);
      collector_.add(batch, head, row, static_cast<std::int64_t>(c), value, target.want, target.bound);
    }
  }

  Verdict verdict() const { return collector_.verdict(); }
  std::string rule() const {
    char text[128];
    std::snprintf(text, sizeof text, "E + %s*(|o| + E), E = (max(1e-5, 4*2^-23*sqrt(%lld)) + %g*2^-23*S)*A*",
                  rounding_.name, static_cast<long long>(n_), hostile_score_factor);
    if (weights_ == Weights::exact) return text;
    return text + (" + " + std::string(rounding_.name) + "*(A* + |o|)");
  }

 private:
  std::int64_t n_;
  Rounding rounding_;
  SequentialSum sum_;
  Weights weights_;
  Collector collector_;
};

}  // namespace gate
}  // namespace runmax
