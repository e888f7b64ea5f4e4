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

// Scores of `rows` rows and `vectors` vectors of keys, over `depth` channels. `q` is [depth][6]; `k` points
// into a panel at the first key, [depth][16]; keys beyond the panel lie `panel_stride` floats further.
template <int rows, int vectors, Into into>
HWY_INLINE void score_register_tile(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k,
                                    std::int64_t panel_stride, std::int64_t depth, float* HWY_RESTRICT scores,
                                    std::int64_t scores_stride, float* HWY_RESTRICT lane_max) {
  const Floats d;
  constexpr std::int64_t per_panel = forward_tile.panel / lanes;
  Vector acc[rows][vectors];
  RUNMAX_UNROLL
  for (int r = 0; r < rows; ++r) {
    RUNMAX_UNROLL
    for (int v = 0; v < vectors; ++v) acc[r][v] = hn::Zero(d);
  }
  for (const float* end = q + depth * tile_rows; q != end; q += tile_rows, k += forward_tile.panel) {
    Vector keys[vectors];
    RUNMAX_UNROLL
    for (int v = 0; v < vectors; ++v)
      keys[v] = hn::LoadU(d, k + v / per_panel * panel_stride + v % per_panel * lanes);
    RUNMAX_UNROLL
    for (int r = 0; r < rows; ++r) {
      const Vector query = hn::Set(d, q[r]);
      RUNMAX_UNROLL
      for (int v = 0; v < vectors; ++v) acc[r][v] = hn::MulAdd(query, keys[v], acc[r][v]);
    }
  }
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

// Whether rows of V are in the cache, or have to be asked for ahead of their use.
enum class From { cache, memory };

// out += weights * V for `rows` rows, `keys` keys and `vectors` vectors of channels, summed in registers
// first.
template <int rows, int vectors, Into into, From from>
HWY_INLINE void value_register_tile(const float* HWY_RESTRICT weights, std::int64_t weights_stride,
                                    const float* HWY_RESTRICT v, std::int64_t v_stride, std::int64_t keys,
                                    float* HWY_RESTRICT out, std::int64_t out_stride) {
  const Floats d;
  Vector acc[rows][vectors];
  RUNMAX_UNROLL
  for (int r = 0; r < rows; ++r) {
    RUNMAX_UNROLL
    for (int c = 0; c < vectors; ++c)
      acc[r][c] = into == Into::fresh ? hn::Zero(d) : hn::LoadU(d, out + r * out_stride + c * lanes);
  }
  for (const float* end = weights + keys; weights != end; ++weights, v += v_stride) {
    if constexpr (from == From::memory)
      for (int c = 0; c < vectors * lanes; c += static_cast<int>(forward_tile.panel))
        hwy::Prefetch(v + prefetch_rows * v_stride + c);
    Vector value[vectors];
    RUNMAX_UNROLL
    for (int c = 0; c < vectors; ++c) value[c] = hn::LoadU(d, v + c * lanes);
    RUNMAX_UNROLL
    for (int r = 0; r < rows; ++r) {
      const Vector p = hn::Set(d, weights[r * weights_stride]);
      RUNMAX_UNROLL
      for (int c = 0; c < vectors; ++c) acc[r][c] = hn::MulAdd(p, value[c], acc[r][c]);
    }
  }
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
                                       float* scores, std::int64_t scores_stride, float* lane_max) {
  for (; tiles > 0; --tiles) {
    score_register_tile<rows, vectors, into>(q, k, panel_stride, depth, scores, scores_stride, lane_max);
    q += q_stride;
    scores += rows * scores_stride;
    if (lane_max) lane_max += rows * forward_tile.panel;
  }
}

template <int rows, int vectors, Into into, From from>
HWY_NOINLINE void value_register_tiles(std::int64_t tiles, const float* weights, std::int64_t weights_stride,
                                       const float* v, std::int64_t v_stride, std::int64_t keys, float* out,
                                       std::int64_t out_stride) {
  for (; tiles > 0; --tiles) {
    value_register_tile<rows, vectors, into, from>(weights, weights_stride, v, v_stride, keys, out,
                                                   out_stride);
    weights += rows * weights_stride;
    out += rows * out_stride;
  }
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
