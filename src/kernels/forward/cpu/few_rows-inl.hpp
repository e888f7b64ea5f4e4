// Scores of a few query rows against rows of K as they lie: what a decoding step does with keys that it reads
// once.
#if defined(RUNMAX_KERNELS_FORWARD_CPU_FEW_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_FORWARD_CPU_FEW_ROWS_INL_HPP
#undef RUNMAX_KERNELS_FORWARD_CPU_FEW_ROWS_INL_HPP
#else
#define RUNMAX_KERNELS_FORWARD_CPU_FEW_ROWS_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "kernels/forward/cpu/blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int few_keys = 4;

// Scores of `rows` rows and four keys, `k_stride` floats from one to the next: (rows, 4). Each is summed lane
// by lane and then over the lanes, in the same order wherever its key stands.
template <int rows>
HWY_INLINE void few_scores(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k, std::int64_t k_stride,
                           std::int64_t head_dim, float* HWY_RESTRICT scores, std::int64_t scores_stride) {
  const Floats d;
  Vector acc[rows][few_keys];
  RUNMAX_UNROLL
  for (int r = 0; r < rows; ++r) {
    RUNMAX_UNROLL
    for (int j = 0; j < few_keys; ++j) acc[r][j] = hn::Zero(d);
  }
  for (std::int64_t c = 0; c + lanes <= head_dim; c += lanes) {
    Vector keys[few_keys];
    RUNMAX_UNROLL
    for (int j = 0; j < few_keys; ++j) keys[j] = hn::LoadU(d, k + j * k_stride + c);
    RUNMAX_UNROLL
    for (int r = 0; r < rows; ++r) {
      const Vector query = hn::LoadU(d, q + r * head_dim + c);
      RUNMAX_UNROLL
      for (int j = 0; j < few_keys; ++j) acc[r][j] = hn::MulAdd(query, keys[j], acc[r][j]);
    }
  }
  RUNMAX_UNROLL
  for (int r = 0; r < rows; ++r) sums_of_lanes(acc[r], scores + r * scores_stride);
}

// Adds the channels that fill no vector: a load would reach beyond the row.
HWY_NOINLINE void add_last_channels(const float* q, const float* k, std::int64_t k_stride,
                                    std::int64_t head_dim, std::int64_t rows, std::int64_t keys,
                                    float* scores, std::int64_t scores_stride) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < keys; ++j)
      for (std::int64_t c = head_dim / lanes * lanes; c < head_dim; ++c)
        scores[r * scores_stride + j] += q[r * head_dim + c] * k[j * k_stride + c];
}

template <int rows>
HWY_NOINLINE void few_rows_block(const FewRowsTile& t, std::int64_t first, TileKeys keys, bool ask) {
  const float* const q = t.q + first * t.head_dim;
  const std::int64_t stride = t.k.row_stride;
  const float* k = t.k.data + keys.begin * stride;
  float* scores = t.scores + first * t.scores_stride + keys.begin;
  const std::int64_t ahead = ask ? t.head_dim : 0;
  std::int64_t j = keys.begin;
  for (; j + few_keys <= keys.end; j += few_keys, k += few_keys * stride, scores += few_keys) {
    for (int i = 0; i < few_keys; ++i)
      for (std::int64_t c = 0; c < ahead; c += forward_tile.panel)
        ask_for(k + (prefetch_rows + i) * stride + c);
    few_scores<rows>(q, k, stride, t.head_dim, scores, t.scores_stride);
  }
  for (; j < keys.end; ++j, k += stride, ++scores) {
    float one[rows * few_keys];
    few_scores<rows>(q, k, 0, t.head_dim, one, few_keys);
    for (int r = 0; r < rows; ++r) scores[r * t.scores_stride] = one[r * few_keys];
  }
  if (t.head_dim % lanes != 0)
    add_last_channels(q, t.k.data + keys.begin * stride, stride, t.head_dim, rows, keys.end - keys.begin,
                      t.scores + first * t.scores_stride + keys.begin, t.scores_stride);
}

inline void few_rows_scores(const FewRowsTile& t) {
  constexpr std::int64_t group = 4;
  const TileKeys all = hull(t.keys, t.rows);
  // Some keys for all rows: their lines stay in the first-level cache.
  constexpr std::int32_t together = 32;
  for (std::int32_t begin = all.begin; begin < all.end; begin += together) {
    const TileKeys keys{begin, std::min(begin + together, all.end)};
    for (std::int64_t first = 0; first < t.rows; first += group) {
      const bool ask = first == 0 && t.from_memory;
      switch (std::min(t.rows - first, group)) {
        case 1:
          few_rows_block<1>(t, first, keys, ask);
          break;
        case 2:
          few_rows_block<2>(t, first, keys, ask);
          break;
        case 3:
          few_rows_block<3>(t, first, keys, ask);
          break;
        default:
          few_rows_block<4>(t, first, keys, ask);
          break;
      }
    }
  }
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
