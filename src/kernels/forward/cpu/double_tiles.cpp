// Compiles the double-precision loops once per instruction set and picks one at run time.
#include "kernels/forward/cpu/double_tiles.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/forward/cpu/config.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/forward/cpu/double_tiles.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "kernels/forward/cpu/double-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The `lowest` of exp2_double: scale * lowest is -1023.
inline double lowest_double_exponent(double scale) { return -1023.0 / scale; }

inline void products(const double* a, const double* b, std::int64_t depth, std::int64_t columns,
                     double* out) {
  constexpr std::int64_t step = double_vectors * double_lanes;
  for (std::int64_t j = 0; j < columns; j += step)
    double_scores_tile<double_rows>(
        a, b + j / double_tile.panel * double_tile.panel * depth + j % double_tile.panel, depth, out + j);
}

inline double weigh(const DoubleRow& b) {
  const Doubles d;
  const DoubleKeys keys = b.keys;
  double* row = b.scores;
  if (keys.begin >= keys.end) return 1.0;
  const auto first = static_cast<std::int64_t>(keys.begin) / double_lanes * double_lanes;
  const auto inside = [&](std::int64_t j) HWY_ATTR {
    const auto low = static_cast<std::size_t>(std::clamp<std::int64_t>(keys.begin - j, 0, double_lanes));
    const auto high = static_cast<std::size_t>(std::clamp<std::int64_t>(keys.end - j, 0, double_lanes));
    return hn::AndNot(hn::FirstN(d, low), hn::FirstN(d, high));
  };
  // A NaN is never larger, and so never becomes the maximum.
  DoubleVector largest = hn::Set(d, std::numeric_limits<double>::lowest());
  for (std::int64_t j = first; j < keys.end; j += double_lanes) {
    const DoubleVector score = hn::LoadU(d, row + j);
    largest = hn::IfThenElse(hn::And(inside(j), hn::Gt(score, largest)), score, largest);
  }
  const double block_max = hn::GetLane(hn::MaxOfLanes(d, largest));
  const double old_max = *b.max, new_max = std::max(old_max, block_max);
  const DoubleVector scale = hn::Set(d, b.exponent_scale), max = hn::Set(d, new_max);
  const DoubleVector lowest = hn::Set(d, lowest_double_exponent(b.exponent_scale));
  DoubleVector sum = hn::Zero(d);
  for (std::int64_t j = first; j < keys.end; j += double_lanes) {
    const DoubleVector weight =
        hn::IfThenElseZero(inside(j), exp2_double(d, hn::Sub(hn::LoadU(d, row + j), max), scale, lowest));
    hn::StoreU(weight, d, row + j);
    sum = hn::Add(sum, weight);
  }
  double rescale = 1.0;
  if (new_max != old_max)
    rescale = hn::GetLane(exp2_double(d, hn::Sub(hn::Set(d, old_max), max), scale, lowest));
  *b.max = new_max;
  *b.sum = *b.sum * rescale + hn::GetLane(hn::SumOfLanes(d, sum));
  return rescale;
}

inline void add_values(const double* weights, const double* values, std::int64_t width, std::int64_t count,
                       std::int64_t rows, double* out) {
  if (rows == double_rows)
    double_values_rows<double_rows>(weights, values, width, count, out);
  else
    double_values_rows<1>(weights, values, width, count, out);
}

inline void exp2_doubles(const double* in, double scale, double* out, std::int64_t count) {
  const Doubles d;
  for (std::int64_t i = 0; i < count; i += double_lanes) {
    double buffer[double_lanes] = {};
    const auto bytes = static_cast<std::size_t>(std::min(double_lanes, count - i)) * sizeof(double);
    std::memcpy(buffer, in + i, bytes);
    hn::StoreU(
        exp2_double(d, hn::LoadU(d, buffer), hn::Set(d, scale), hn::Set(d, lowest_double_exponent(scale))), d,
        buffer);
    std::memcpy(out + i, buffer, bytes);
  }
}

const DoubleFunctions* double_table() {
  static const DoubleFunctions table{hwy::TargetName(HWY_TARGET), products, weigh, add_values, exp2_doubles};
  return &table;
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace runmax::cpu {

HWY_EXPORT(double_table);

const DoubleFunctions& double_functions() { return *HWY_DYNAMIC_DISPATCH(double_table)(); }

}  // namespace runmax::cpu
#endif
