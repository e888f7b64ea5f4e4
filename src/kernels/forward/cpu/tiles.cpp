// Compiles the SIMD inner loops once per instruction set and picks one at run time.
#include "kernels/forward/cpu/tiles.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/forward/cpu/config.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/forward/cpu/tiles.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/forward/cpu/blocks-inl.hpp"
#include "kernels/forward/cpu/few_rows-inl.hpp"
#include "kernels/forward/cpu/masked_values-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Keys [first, last) of a panel, one element at a time.
inline void pack_keys_plain(const StridedRows& source, std::int64_t first, std::int64_t last,
                            std::int64_t channel, std::int64_t head_dim, float* packed) {
  for (std::int64_t j = first; j < last; ++j)
    for (std::int64_t c = channel; c < head_dim; ++c)
      packed[c * forward_tile.panel + j] = source.data[j * source.row_stride + c * source.channel_stride];
}

// Keys [first, first + 4) of a panel whose channels are neighbours, by 4 x 4 transposes; returns the first
// channel that is left.
inline std::int64_t pack_four_keys(const StridedRows& source, std::int64_t first, std::int64_t head_dim,
                                   float* packed) {
  std::int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d4;
  const hn::Repartition<double, decltype(d4)> d2;
  const float* from = source.data + first * source.row_stride;
  for (; c + 4 <= head_dim; c += 4) {
    if (c % forward_tile.panel == 0)
      for (std::int64_t j = 0; j < 4; ++j) hwy::Prefetch(from + (j + prefetch_rows) * source.row_stride + c);
    const auto r0 = hn::LoadU(d4, from + c);
    const auto r1 = hn::LoadU(d4, from + source.row_stride + c);
    const auto r2 = hn::LoadU(d4, from + 2 * source.row_stride + c);
    const auto r3 = hn::LoadU(d4, from + 3 * source.row_stride + c);
    const auto low01 = hn::BitCast(d2, hn::InterleaveLower(d4, r0, r1));
    const auto low23 = hn::BitCast(d2, hn::InterleaveLower(d4, r2, r3));
    const auto high01 = hn::BitCast(d2, hn::InterleaveUpper(d4, r0, r1));
    const auto high23 = hn::BitCast(d2, hn::InterleaveUpper(d4, r2, r3));
    float* to = packed + c * forward_tile.panel + first;
    hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, low01, low23)), d4, to);
    hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, low01, low23)), d4, to + forward_tile.panel);
    hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, high01, high23)), d4, to + 2 * forward_tile.panel);
    hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, high01, high23)), d4, to + 3 * forward_tile.panel);
  }
#else
  (void)source, (void)first, (void)head_dim, (void)packed;
#endif
  return c;
}

inline void pack_keys(const StridedRows& source, std::int64_t keys, std::int64_t head_dim, float* packed) {
  constexpr std::int64_t panel = forward_tile.panel;
  for (std::int64_t first = 0; first < keys; first += panel) {
    const std::int64_t count = std::min(panel, keys - first);
    float* to = packed + first * head_dim;
    const StridedRows from{source.data + first * source.row_stride, source.row_stride, source.channel_stride};
    if (count < panel) std::fill(to, to + panel * head_dim, 0.0f);
    std::int64_t j = 0;
    if (source.channel_stride == 1)
      for (; j + 4 <= count; j += 4)
        pack_keys_plain(from, j, j + 4, pack_four_keys(from, j, head_dim, to), head_dim, to);
    pack_keys_plain(from, j, count, 0, head_dim, to);
  }
}

// A register tile of six query rows with neighbouring channels, times a power of two that floats hold: by two
// 4 x 4 transposes, of rows 0 to 3 and of rows 2 to 5.
inline void pack_query_rows(const StridedRows& source, std::int64_t head_dim, float factor, float* packed) {
  static_assert(tile_rows == 6);
  const float* row[tile_rows];
  for (int r = 0; r < tile_rows; ++r) row[r] = source.data + r * source.row_stride;
  std::int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d4;
  const hn::Repartition<double, decltype(d4)> d2;
  const auto times = hn::Set(d4, factor);
  for (; c + 4 <= head_dim; c += 4) {
    // Rows are read across: the processor's own prefetch does not see the next six coming.
    if (c % forward_tile.panel == 0)
      for (int r = 0; r < tile_rows; ++r) hwy::Prefetch(row[r] + tile_rows * source.row_stride + c);
    for (int first : {0, 2}) {
      const auto r0 = hn::Mul(times, hn::LoadU(d4, row[first] + c));
      const auto r1 = hn::Mul(times, hn::LoadU(d4, row[first + 1] + c));
      const auto r2 = hn::Mul(times, hn::LoadU(d4, row[first + 2] + c));
      const auto r3 = hn::Mul(times, hn::LoadU(d4, row[first + 3] + c));
      const auto low01 = hn::BitCast(d2, hn::InterleaveLower(d4, r0, r1));
      const auto low23 = hn::BitCast(d2, hn::InterleaveLower(d4, r2, r3));
      const auto high01 = hn::BitCast(d2, hn::InterleaveUpper(d4, r0, r1));
      const auto high23 = hn::BitCast(d2, hn::InterleaveUpper(d4, r2, r3));
      float* to = packed + c * tile_rows + first;
      hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, low01, low23)), d4, to);
      hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, low01, low23)), d4, to + tile_rows);
      hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, high01, high23)), d4, to + 2 * tile_rows);
      hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, high01, high23)), d4, to + 3 * tile_rows);
    }
  }
#endif
  for (; c < head_dim; ++c) {
    RUNMAX_UNROLL
    for (int r = 0; r < tile_rows; ++r) packed[c * tile_rows + r] = factor * row[r][c];
  }
}

inline void scale_rows(const StridedRows& source, std::int64_t rows, std::int64_t channels, float factor,
                       float* to) {
  const Floats d;
  const Vector times = hn::Set(d, factor);
  const float* from = source.data;
  for (std::int64_t r = 0; r < rows; ++r, from += source.row_stride, to += channels) {
    std::int64_t c = 0;
    for (; c + lanes <= channels; c += lanes) hn::StoreU(hn::Mul(times, hn::LoadU(d, from + c)), d, to + c);
    for (; c < channels; ++c) to[c] = factor * from[c];
  }
}

inline void pack_values(const StridedRows& source, std::int64_t keys, std::int64_t value_dim,
                        std::int64_t first_key, const PackedValues& packed) {
  constexpr std::int64_t panel = forward_tile.panel;
  for (std::int64_t channel = 0; channel < value_dim; channel += forward_tile.value_group) {
    const std::int64_t count = std::min(forward_tile.value_group, value_dim - channel);
    const std::int64_t width = (count + panel - 1) / panel * panel;
    float* to = packed.data + channel * packed.keys + first_key * width;
    const float* from = source.data + channel * source.channel_stride;
    for (std::int64_t j = 0; j < keys; ++j, to += width, from += source.row_stride) {
      if (source.channel_stride == 1)
        std::copy(from, from + count, to);
      else
        for (std::int64_t c = 0; c < count; ++c) to[c] = from[c * source.channel_stride];
      std::fill(to + count, to + width, 0.0f);
    }
  }
}

inline float largest(const float* values_of_row, std::int64_t count) {
  float most = std::numeric_limits<float>::lowest();
  // In pieces whose length fits a TileKeys.
  for (std::int64_t at = 0; at < count; at += forward_tile.block_kv)
    most = std::max(
        most, largest_score(values_of_row + at,
                            {0, static_cast<std::int32_t>(std::min(forward_tile.block_kv, count - at))}));
  return most;
}

// Division by way of the reciprocal and one correction, which makes n / n exactly 1 as a division does, at a
// third of its cost. Infinities and NaN keep the uncorrected product.
inline void normalize(const float* out, std::int64_t count, float sum, float* to) {
  const Floats d;
  const float reciprocal = sum == 0.0f ? 0.0f : 1.0f / sum;
  std::int64_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    const Vector x = hn::LoadU(d, out + c);
    const Vector quotient = hn::Mul(x, hn::Set(d, reciprocal));
    const Vector rest = hn::NegMulAdd(quotient, hn::Set(d, sum), x);
    const Vector better = hn::MulAdd(rest, hn::Set(d, reciprocal), quotient);
    hn::StoreU(hn::IfThenElse(hn::Eq(rest, rest), better, quotient), d, to + c);
  }
  for (; c < count; ++c) to[c] = sum == 0.0f ? 0.0f : out[c] / sum;
}

inline void exp2_array(const float* in, float scale, float* out, std::int64_t count) {
  const Floats d;
  const Vector scales = hn::Set(d, scale);
  const Vector lowest = hn::Set(d, lowest_exponent(scale));
  for (std::int64_t i = 0; i < count; i += lanes) {
    float buffer[forward_tile.panel] = {};
    const auto n = static_cast<std::size_t>(std::min(lanes, count - i));
    std::memcpy(buffer, in + i, n * sizeof(float));
    hn::StoreU(exp2_scaled(d, hn::LoadU(d, buffer), scales, lowest), d, buffer);
    std::memcpy(out + i, buffer, n * sizeof(float));
  }
}

const TileFunctions* functions() {
  static const TileFunctions table{hwy::TargetName(HWY_TARGET),
                                   lanes,
                                   pack_keys,
                                   pack_values,
                                   pack_query_rows,
                                   scale_rows,
                                   scores,
                                   few_rows_scores,
                                   weights,
                                   largest,
                                   values,
                                   masked_values,
                                   normalize,
                                   exp2_array};
  return &table;
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace runmax::cpu {

HWY_EXPORT(functions);

const TileFunctions& tile_functions() { return *HWY_DYNAMIC_DISPATCH(functions)(); }

std::vector<std::int64_t> tile_targets() { return hwy::SupportedAndGeneratedTargets(); }

void force_tile_target(std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

std::int64_t packed_query_floats(std::int64_t rows, std::int64_t head_dim) {
  return (rows + forward_tile.rows - 1) / forward_tile.rows * forward_tile.rows * head_dim;
}

namespace {

// A power of two in a float's normal range gives the same product in float as in double.
bool is_normal_float(double factor) {
  const auto narrow = static_cast<float>(factor);
  return narrow == factor && std::abs(narrow) >= std::numeric_limits<float>::min();
}

}  // namespace

void pack_queries(const StridedRows& source, std::int64_t first, std::int64_t rows, std::int64_t head_dim,
                  double factor, float* packed) {
  const bool fits = is_normal_float(factor);
  for (std::int64_t r = 0; r < rows;) {
    const std::int64_t at = first + r;
    float* to = packed + at / forward_tile.rows * forward_tile.rows * head_dim + at % forward_tile.rows;
    const StridedRows from{source.data + r * source.row_stride, source.row_stride, source.channel_stride};
    if (fits && from.channel_stride == 1 && at % forward_tile.rows == 0 && rows - r >= forward_tile.rows) {
      tile_functions().pack_query_rows(from, head_dim, static_cast<float>(factor), to);
      r += forward_tile.rows;
      continue;
    }
    for (std::int64_t c = 0; c < head_dim; ++c)
      to[c * forward_tile.rows] = static_cast<float>(factor * from.data[c * from.channel_stride]);
    ++r;
  }
}

void scale_rows(const StridedRows& source, std::int64_t rows, std::int64_t channels, double factor,
                float* to) {
  if (is_normal_float(factor) && source.channel_stride == 1) {
    tile_functions().scale_rows(source, rows, channels, static_cast<float>(factor), to);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < channels; ++c)
      to[r * channels + c] =
          static_cast<float>(factor * source.data[r * source.row_stride + c * source.channel_stride]);
}

}  // namespace runmax::cpu
#endif
