// The two register-tile products: scores = Q K^T and out += P V.
#if defined(RUNMAX_KERNELS_FORWARD_CPU_PRODUCTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_FORWARD_CPU_PRODUCTS_INL_HPP
#undef RUNMAX_KERNELS_FORWARD_CPU_PRODUCTS_INL_HPP
#else
#define RUNMAX_KERNELS_FORWARD_CPU_PRODUCTS_INL_HPP
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/forward/cpu/config.hpp"
#include "kernels/forward/cpu/lanes-inl.hpp"
#include "kernels/forward/cpu/tiles.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of a full register tile: 6 x 4 of 32 registers with AVX-512, 6 x 2 of 16 elsewhere.
constexpr int tile_vectors = lanes == 16 ? 4 : 2;
constexpr std::int64_t tile_width = tile_vectors * lanes;
constexpr int tile_rows = static_cast<int>(forward_tile.rows);

enum class Into { fresh, accumulate };

// Scores of `rows` rows and `vectors` vectors of keys, over `depth` > 0 channels. `k` points
// into a panel at the first key, [depth][16]; keys beyond the panel lie `panel_stride` floats further.
template <int rows, int vectors, Into into>
HWY_INLINE void score_register_tile(const float* HWY_RESTRICT q, std::int64_t q_stride,
                                    const float* HWY_RESTRICT k, std::int64_t panel_stride,
                                    std::int64_t depth, float* HWY_RESTRICT scores,
                                    std::int64_t scores_stride, float* HWY_RESTRICT lane_max) {
  const Floats d;
  constexpr std::int64_t per_panel = forward_tile.panel / lanes;
  Vector acc[rows][vectors];
  const auto step = [&](auto first) HWY_ATTR {
    Vector keys[vectors];
    RUNMAX_UNROLL
    for (int v = 0; v < vectors; ++v)
      keys[v] = hn::LoadU(d, k + v / per_panel * panel_stride + v % per_panel * lanes);
    RUNMAX_UNROLL
    for (int r = 0; r < rows; ++r) {
      const Vector query = hn::Set(d, q[r * q_stride]);
      RUNMAX_UNROLL
      for (int v = 0; v < vectors; ++v)
        acc[r][v] = first ? hn::Mul(query, keys[v]) : hn::MulAdd(query, keys[v], acc[r][v]);
    }
    ++q;
    k += forward_tile.panel;
  };
  // Begun with products: zeros would cost as much as a step.
  const float* end = q + depth;
  step(std::true_type());
  while (q != end) step(std::false_type());
  RUNMAX_UNROLL
  for (int r = 0; r < rows; ++r, scores += scores_stride) {
    RUNMAX_UNROLL
    for (int v = 0; v < vectors; ++v) {
      if (into == Into::accumulate) acc[r][v] = hn::Add(acc[r][v], hn::LoadU(d, scores + v * lanes));
      hn::StoreU(acc[r][v], d, scores + v * lanes);
    }
    if (!lane_max) continue;
    Vector largest = hn::LoadU(d, lane_max + r * forward_tile.panel);
    // The second operand survives a NaN in the first: a NaN score never becomes the maximum.
    RUNMAX_UNROLL
    for (int v = 0; v < vectors; ++v) largest = hn::Max(acc[r][v], largest);
    hn::StoreU(largest, d, lane_max + r * forward_tile.panel);
  }
}

// Asks for a cache line, to the second-level cache: the first level can wait for fewer lines at a time.
HWY_INLINE void ask_for(const float* line) { __builtin_prefetch(line, 0, 2); }

// Whether rows of V are in the cache, or have to be asked for ahead of their use.
enum class From { cache, memory };

// out += weights * V for `rows` rows, `keys` keys and `vectors` vectors of channels, summed in registers
// first. From memory, `width_ahead` channels of later rows are asked for.
template <int rows, int vectors, Into into, From from>
HWY_INLINE void value_register_tile(const float* HWY_RESTRICT weights, std::int64_t weights_stride,
                                    const float* HWY_RESTRICT v, std::int64_t v_stride, std::int64_t keys,
                                    float* HWY_RESTRICT out, std::int64_t out_stride,
                                    std::int64_t width_ahead) {
  const Floats d;
  Vector acc[rows][vectors];
  const auto step = [&](auto first) HWY_ATTR {
    if constexpr (from == From::memory)
      for (std::int64_t c = 0; c < width_ahead; c += forward_tile.panel)
        ask_for(v + prefetch_rows * v_stride + c);
    Vector value[vectors];
    RUNMAX_UNROLL
    for (int c = 0; c < vectors; ++c) value[c] = hn::LoadU(d, v + c * lanes);
    RUNMAX_UNROLL
    for (int r = 0; r < rows; ++r) {
      const Vector p = hn::Set(d, weights[r * weights_stride]);
      RUNMAX_UNROLL
      for (int c = 0; c < vectors; ++c)
        acc[r][c] = first ? hn::Mul(p, value[c]) : hn::MulAdd(p, value[c], acc[r][c]);
    }
    ++weights;
    v += v_stride;
  };
  const float* end = weights + keys;
  if constexpr (into == Into::fresh) {
    step(std::true_type());
  } else {
    RUNMAX_UNROLL
    for (int r = 0; r < rows; ++r) {
      RUNMAX_UNROLL
      for (int c = 0; c < vectors; ++c) acc[r][c] = hn::LoadU(d, out + r * out_stride + c * lanes);
    }
  }
  while (weights != end) step(std::false_type());
  RUNMAX_UNROLL
  for (int r = 0; r < rows; ++r, out += out_stride) {
    RUNMAX_UNROLL
    for (int c = 0; c < vectors; ++c) {
      if (into == Into::fresh) acc[r][c] = hn::Add(hn::LoadU(d, out + c * lanes), acc[r][c]);
      hn::StoreU(acc[r][c], d, out + c * lanes);
    }
  }
}

// `tiles` register tiles one below the other. What stands between two of them is not hidden behind their
// multiply-adds: here it is a few additions.
template <int rows, int vectors, Into into>
HWY_NOINLINE void score_register_tiles(std::int64_t tiles, const float* q, std::int64_t q_stride,
                                       const float* k, std::int64_t panel_stride, std::int64_t depth,
                                       float* scores, std::int64_t scores_stride, float* lane_max,
                                       Ahead* ahead) {
  for (; tiles > 0; --tiles) {
    score_register_tile<rows, vectors, into>(q, q_stride, k, panel_stride, depth, scores, scores_stride,
                                             lane_max);
    q += rows * q_stride;
    scores += rows * scores_stride;
    if (lane_max) lane_max += rows * forward_tile.panel;
    if (ahead) ahead->ask();
  }
}

template <int rows, int vectors, Into into, From from>
HWY_NOINLINE void value_register_tiles(std::int64_t tiles, const float* weights, std::int64_t weights_stride,
                                       const float* v, std::int64_t v_stride, std::int64_t keys, float* out,
                                       std::int64_t out_stride, std::int64_t width_ahead) {
  for (; tiles > 0; --tiles) {
    value_register_tile<rows, vectors, into, from>(weights, weights_stride, v, v_stride, keys, out,
                                                   out_stride, width_ahead);
    weights += rows * weights_stride;
    out += rows * out_stride;
  }
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
