// The register tiles of backward: P and dS of a tile, and sums of packed rows weighted by them.
#if defined(RUNMAX_KERNELS_BACKWARD_CPU_PRODUCTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_BACKWARD_CPU_PRODUCTS_INL_HPP
#undef RUNMAX_KERNELS_BACKWARD_CPU_PRODUCTS_INL_HPP
#else
#define RUNMAX_KERNELS_BACKWARD_CPU_PRODUCTS_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/backward/cpu/config.hpp"
#include "kernels/backward/cpu/tiles.hpp"
#include "kernels/forward/cpu/exp2-inl.hpp"
#include "kernels/forward/cpu/products-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The smaller of 0 and x; NaN in x stays.
template <class V>
HWY_INLINE V at_most_zero(V x) {
  const hn::DFromV<V> d;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  // The instruction returns its second operand if either is NaN.
  return hn::Min(hn::Zero(d), x);
#else
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Zero(d), x);
#endif
}

// A product of query rows and keys, and what becomes of it.
enum class Pair { weights, score_gradients };

// Whether the sums become P or dS where they are made, or are stored for the options to work on.
enum class Epilogue { finish, none };

// One register tile of P or dS, over `depth` channels. `q` is [depth][6]; `k` points into a panel at the
// first key, [depth][16]. `into` accumulate: the sum of earlier channels is in `out`; `last`: no more follow.
template <Pair pair, Epilogue epilogue, int vectors>
HWY_INLINE void pair_register_tile(const PairTile& t, const float* HWY_RESTRICT q,
                                   const float* HWY_RESTRICT k, std::int64_t panel_stride, std::int64_t depth,
                                   Into into, bool last, std::int64_t first_row, std::int64_t first_key) {
  const Floats d;
  constexpr std::int64_t per_panel = backward_tile.panel / lanes;
  const float* key[vectors];
  RUNMAX_UNROLL
  for (int v = 0; v < vectors; ++v) key[v] = k + v / per_panel * panel_stride + v % per_panel * lanes;
  Vector acc[tile_rows][vectors];
  RUNMAX_UNROLL
  for (int r = 0; r < tile_rows; ++r) {
    RUNMAX_UNROLL
    for (int v = 0; v < vectors; ++v) acc[r][v] = hn::Zero(d);
  }
  for (std::int64_t c = 0; c < depth; ++c) {
    Vector keys[vectors];
    RUNMAX_UNROLL
    for (int v = 0; v < vectors; ++v) keys[v] = hn::LoadU(d, key[v] + c * backward_tile.panel);
    RUNMAX_UNROLL
    for (int r = 0; r < tile_rows; ++r) {
      const Vector query = hn::Set(d, q[c * tile_rows + r]);
      RUNMAX_UNROLL
      for (int v = 0; v < vectors; ++v) acc[r][v] = hn::MulAdd(query, keys[v], acc[r][v]);
    }
  }
  const Vector scale = hn::Set(d, t.exponent_scale);
  const Vector lowest = hn::Set(d, lowest_exponent(t.exponent_scale));
  RUNMAX_UNROLL
  for (int r = 0; r < tile_rows; ++r) {
    const std::int64_t at = (first_row + r) * pair_stride + first_key;
    float* out = (pair == Pair::weights ? t.weights : t.score_gradients) + at;
    const Vector shift = hn::Set(d, (pair == Pair::weights ? t.lse : t.delta)[first_row + r]);
    RUNMAX_UNROLL
    for (int v = 0; v < vectors; ++v) {
      Vector x = acc[r][v];
      if (into == Into::accumulate) x = hn::Add(x, hn::LoadU(d, out + v * lanes));
      if (epilogue == Epilogue::finish && last) {
        x = hn::Sub(x, shift);
        if (pair == Pair::weights)
          // A weight is at most 1; what lies above comes from the rounding of LSE.
          x = exp2_scaled(d, at_most_zero(x), scale, lowest);
        else
          x = hn::Mul(x, hn::LoadU(d, t.weights + at + v * lanes));
      }
      hn::StoreU(x, d, out + v * lanes);
    }
  }
}

// Where the weights of an output row lie: side by side, or one to a row of the buffer.
enum class WeightsOf { a_row, a_column };

// out += W X for `m` output rows, `count` terms and `vectors` vectors of channels, summed in registers first.
template <WeightsOf order, int m, int vectors>
HWY_INLINE void sum_register_tile(const float* HWY_RESTRICT w, const float* HWY_RESTRICT x,
                                  std::int64_t x_stride, std::int64_t count, Into into,
                                  float* HWY_RESTRICT out, std::int64_t out_stride) {
  const Floats d;
  const float* weight[m];
  RUNMAX_UNROLL
  for (int r = 0; r < m; ++r) weight[r] = order == WeightsOf::a_row ? w + r * pair_stride : w + r;
  constexpr std::int64_t step = order == WeightsOf::a_row ? 1 : pair_stride;
  Vector acc[m][vectors];
  RUNMAX_UNROLL
  for (int r = 0; r < m; ++r) {
    RUNMAX_UNROLL
    for (int c = 0; c < vectors; ++c)
      acc[r][c] = into == Into::fresh ? hn::Zero(d) : hn::LoadU(d, out + r * out_stride + c * lanes);
  }
  for (std::int64_t j = 0; j < count; ++j) {
    Vector value[vectors];
    RUNMAX_UNROLL
    for (int c = 0; c < vectors; ++c) value[c] = hn::LoadU(d, x + j * x_stride + c * lanes);
    RUNMAX_UNROLL
    for (int r = 0; r < m; ++r) {
      const Vector p = hn::Set(d, weight[r][j * step]);
      RUNMAX_UNROLL
      for (int c = 0; c < vectors; ++c) acc[r][c] = hn::MulAdd(p, value[c], acc[r][c]);
    }
  }
  RUNMAX_UNROLL
  for (int r = 0; r < m; ++r) {
    RUNMAX_UNROLL
    for (int c = 0; c < vectors; ++c) {
      float* at = out + r * out_stride + c * lanes;
      hn::StoreU(into == Into::fresh ? hn::Add(hn::LoadU(d, at), acc[r][c]) : acc[r][c], d, at);
    }
  }
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
