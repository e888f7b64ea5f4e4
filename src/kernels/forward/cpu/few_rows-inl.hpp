// Scores of a few query rows against rows of K as they lie: what a decoding step does with keys that it reads
// once. 16-bit keys are widened in registers.
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
#include "kernels/forward/cpu/convert-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int few_keys = 4;

// Scores of `rows` rows and four keys, `k_stride` elements from one to the next: (rows, 4). Each is summed
// lane by lane and then over the lanes, in the same order wherever its key stands.
template <class Format, int rows>
HWY_INLINE void few_scores(const float* HWY_RESTRICT q, const typename Format::Element* HWY_RESTRICT k,
                           std::int64_t k_stride, std::int64_t head_dim, float* HWY_RESTRICT scores,
                           std::int64_t scores_stride) {
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
    for (int j = 0; j < few_keys; ++j) keys[j] = Format::widen(d, k + j * k_stride + c);
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
template <class Format>
HWY_NOINLINE void add_last_channels(const float* q, const typename Format::Element* k, std::int64_t k_stride,
                                    std::int64_t head_dim, std::int64_t rows, std::int64_t keys,
                                    float* scores, std::int64_t scores_stride) {
  const std::int64_t first = head_dim / lanes * lanes;
  for (std::int64_t j = 0; j < keys; ++j) {
    typename Format::Element rest[lanes] = {};
    std::copy(k + j * k_stride + first, k + j * k_stride + head_dim, rest);
    float key[lanes];
    hn::StoreU(Format::widen(Floats(), rest), Floats(), key);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = first; c < head_dim; ++c)
        scores[r * scores_stride + j] += q[r * head_dim + c] * key[c - first];
  }
}

template <class Format, int rows>
HWY_NOINLINE void few_rows_block(const FewRowsTile& t, std::int64_t first, TileKeys keys, bool ask) {
  using Element = typename Format::Element;
  const float* const q = t.q + first * t.head_dim;
  const std::int64_t stride = t.k.row_stride, begin = keys.begin - t.range.begin;
  const Element* const first_key = static_cast<const Element*>(t.k.data) + begin * stride;
  const Element* later = ask ? static_cast<const Element*>(t.k.later) + begin * stride : nullptr;
  constexpr auto line = static_cast<std::int64_t>(region_bytes / sizeof(Element));
  const std::int64_t ahead = ask ? t.head_dim : 0;
  const Element* k = first_key;
  float* scores = t.scores + first * t.scores_stride + keys.begin;
  std::int64_t j = keys.begin;
  for (; j + few_keys <= keys.end; j += few_keys, k += few_keys * stride, scores += few_keys) {
    for (int i = 0; i < few_keys && ask; ++i, later += stride)
      for (std::int64_t c = 0; c < ahead; c += line) hwy::Prefetch(later + c);
    few_scores<Format, rows>(q, k, stride, t.head_dim, scores, t.scores_stride);
  }
  for (; j < keys.end; ++j, k += stride, ++scores) {
    float one[rows * few_keys];
    few_scores<Format, rows>(q, k, 0, t.head_dim, one, few_keys);
    for (int r = 0; r < rows; ++r) scores[r * t.scores_stride] = one[r * few_keys];
  }
  if (t.head_dim % lanes != 0)
    add_last_channels<Format>(q, first_key, stride, t.head_dim, rows, keys.end - keys.begin,
                              t.scores + first * t.scores_stride + keys.begin, t.scores_stride);
}

template <class Format>
inline void few_rows_of(const FewRowsTile& t) {
  constexpr std::int64_t group = 4;
  const TileKeys all = cut(hull(t.keys, t.rows), t.range.begin, t.range.end);
  // Some keys for all rows: their lines stay in the first-level cache.
  constexpr std::int32_t together = 32;
  for (std::int32_t begin = all.begin; begin < all.end; begin += together) {
    const TileKeys keys{begin, std::min(begin + together, all.end)};
    for (std::int64_t first = 0; first < t.rows; first += group) {
      const bool ask = first == 0 && t.k.later;
      switch (std::min(t.rows - first, group)) {
        case 1:
          few_rows_block<Format, 1>(t, first, keys, ask);
          break;
        case 2:
          few_rows_block<Format, 2>(t, first, keys, ask);
          break;
        case 3:
          few_rows_block<Format, 3>(t, first, keys, ask);
          break;
        default:
          few_rows_block<Format, 4>(t, first, keys, ask);
          break;
      }
    }
  }
}

inline void few_rows_scores(const FewRowsTile& t) {
  if (t.k.dtype == DType::f16)
    few_rows_of<Float16>(t);
  else if (t.k.dtype == DType::bf16)
    few_rows_of<BFloat16>(t);
  else
    few_rows_of<Float32>(t);
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
