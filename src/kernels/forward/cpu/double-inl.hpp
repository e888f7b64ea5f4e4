// The loops of the double-precision engine: exp2, scores = Q K^T and out += P V, in register tiles.
#if defined(RUNMAX_KERNELS_FORWARD_CPU_DOUBLE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_FORWARD_CPU_DOUBLE_INL_HPP
#undef RUNMAX_KERNELS_FORWARD_CPU_DOUBLE_INL_HPP
#else
#define RUNMAX_KERNELS_FORWARD_CPU_DOUBLE_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/forward/cpu/config.hpp"
#include "kernels/forward/cpu/double_tiles.hpp"

// Register tiles live in registers only if their loops are unrolled.
#if defined(__clang__)
#define RUNMAX_UNROLL_DOUBLE _Pragma("unroll")
#else
#define RUNMAX_UNROLL_DOUBLE _Pragma("GCC unroll 16")
#endif

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, 8>;
using DoubleVector = hn::Vec<Doubles>;
constexpr std::int64_t double_lanes = static_cast<std::int64_t>(hn::MaxLanes(Doubles()));
// 6 x 4 of 32 registers with AVX-512, 6 x 2 of 16 elsewhere.
constexpr int double_vectors = double_lanes == 8 ? 4 : 2;
constexpr int double_rows = static_cast<int>(double_tile.rows);
static_assert(double_tile.panel % (double_vectors * double_lanes) == 0);

// 2^(scale * x) for x <= 0 and 0 < scale, within 1.5 ulp of 2^ of the exact product where the processor has
// FMA. Below 2^-1022.5 and for -inf it is exactly 0; NaN stays NaN.
//
// scale * x = n + f with n the nearest integer. 2^f is its Taylor series around 0 to the 13th power: with
// |f ln 2| <= 0.347 the rest is 5e-18 of the sum, 0.04 ulp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_double(D d, V x, V scale, V lowest) {
  const hn::RebindToSigned<D> di;
  const V clamped = hn::IfThenElse(hn::Lt(x, lowest), lowest, x);
  // 1.5 * 2^52 + 1023: the sum's low bits are n + 1023, the exponent field of 2^n.
  const V magic = hn::Set(d, 6755399441055744.0 + 1023.0);
  const V shifted = hn::MulAdd(clamped, scale, magic);
  const V f = hn::MulSub(clamped, scale, hn::Sub(shifted, magic));
  constexpr double series[] = {
      1.3691488853904128880892e-12, 2.5678435993488205141994e-11, 4.4455382718708114975964e-10,
      7.0549116208011233298754e-09, 1.0178086009239699727490e-07, 1.3215486790144309488403e-06,
      1.5252733804059840280026e-05, 1.5403530393381609954437e-04, 1.3333558146428443423412e-03,
      9.6181291076284771619791e-03, 5.5504108664821579953142e-02, 2.4022650695910071233355e-01,
      6.9314718055994530941723e-01};
  V p = hn::Set(d, series[0]);
  RUNMAX_UNROLL_DOUBLE
  for (int k = 1; k < 13; ++k) p = hn::MulAdd(p, f, hn::Set(d, series[k]));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0));
  // Multiplied, not added to the exponent: NaN times anything stays NaN. At n = -1023 the bits are those of
  // 0.
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<52>(hn::BitCast(di, shifted))));
}

// Scores of `rows` rows against double_vectors vectors of keys of a panel.
template <int rows>
HWY_INLINE void double_scores_tile(const double* HWY_RESTRICT q, const double* HWY_RESTRICT k,
                                   std::int64_t depth, double* HWY_RESTRICT scores) {
  const Doubles d;
  DoubleVector acc[rows][double_vectors];
  RUNMAX_UNROLL_DOUBLE
  for (int r = 0; r < rows; ++r) {
    RUNMAX_UNROLL_DOUBLE
    for (int v = 0; v < double_vectors; ++v) acc[r][v] = hn::Zero(d);
  }
  for (std::int64_t c = 0; c < depth; ++c) {
    DoubleVector keys[double_vectors];
    RUNMAX_UNROLL_DOUBLE
    for (int v = 0; v < double_vectors; ++v)
      keys[v] = hn::LoadU(d, k + c * double_tile.panel + v * double_lanes);
    RUNMAX_UNROLL_DOUBLE
    for (int r = 0; r < rows; ++r) {
      const DoubleVector query = hn::Set(d, q[c * double_rows + r]);
      RUNMAX_UNROLL_DOUBLE
      for (int v = 0; v < double_vectors; ++v) acc[r][v] = hn::MulAdd(query, keys[v], acc[r][v]);
    }
  }
  RUNMAX_UNROLL_DOUBLE
  for (int r = 0; r < rows; ++r) {
    RUNMAX_UNROLL_DOUBLE
    for (int v = 0; v < double_vectors; ++v)
      hn::StoreU(acc[r][v], d, scores + r * double_tile.block_kv + v * double_lanes);
  }
}

// out += weights * V for `rows` rows and `vectors` vectors of channels, over `keys` keys.
template <int rows, int vectors>
HWY_INLINE void double_values_tile(const double* HWY_RESTRICT weights, const double* HWY_RESTRICT v,
                                   std::int64_t v_stride, std::int64_t keys, double* HWY_RESTRICT out,
                                   std::int64_t out_stride) {
  const Doubles d;
  DoubleVector acc[rows][vectors];
  RUNMAX_UNROLL_DOUBLE
  for (int r = 0; r < rows; ++r) {
    RUNMAX_UNROLL_DOUBLE
    for (int c = 0; c < vectors; ++c) acc[r][c] = hn::Zero(d);
  }
  for (std::int64_t j = 0; j < keys; ++j) {
    DoubleVector value[vectors];
    RUNMAX_UNROLL_DOUBLE
    for (int c = 0; c < vectors; ++c) value[c] = hn::LoadU(d, v + j * v_stride + c * double_lanes);
    RUNMAX_UNROLL_DOUBLE
    for (int r = 0; r < rows; ++r) {
      const DoubleVector p = hn::Set(d, weights[r * double_tile.block_kv + j]);
      RUNMAX_UNROLL_DOUBLE
      for (int c = 0; c < vectors; ++c) acc[r][c] = hn::MulAdd(p, value[c], acc[r][c]);
    }
  }
  RUNMAX_UNROLL_DOUBLE
  for (int r = 0; r < rows; ++r) {
    RUNMAX_UNROLL_DOUBLE
    for (int c = 0; c < vectors; ++c) {
      double* at = out + r * out_stride + c * double_lanes;
      hn::StoreU(hn::Add(hn::LoadU(d, at), acc[r][c]), d, at);
    }
  }
}

template <int rows>
HWY_NOINLINE void double_values_rows(const double* weights, const double* v, std::int64_t width,
                                     std::int64_t keys, double* out) {
  constexpr std::int64_t step = double_vectors * double_lanes;
  std::int64_t c = 0;
  for (; c + step <= width; c += step)
    double_values_tile<rows, double_vectors>(weights, v + c, width, keys, out + c, width);
  for (; c < width; c += double_lanes)
    double_values_tile<rows, 1>(weights, v + c, width, keys, out + c, width);
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
