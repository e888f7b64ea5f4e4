// Compiles the SIMD inner loops once per instruction set and picks one at run time.
#include "kernels/forward/cpu/tiles.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/forward/cpu/config.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/forward/cpu/tiles.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "kernels/forward/cpu/blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline void pack_keys(const StridedRows& source, std::int64_t keys, std::int64_t head_dim, float* packed) {
  constexpr std::int64_t panel = forward_tile.panel;
  for (std::int64_t first = 0; first < keys; first += panel) {
    const std::int64_t count = std::min(panel, keys - first);
    float* to = packed + first * head_dim;
    const float* from = source.data + first * source.row_stride;
    if (count < panel) std::fill(to, to + panel * head_dim, 0.0f);
    for (std::int64_t j = 0; j < count; ++j)
      for (std::int64_t c = 0; c < head_dim; ++c)
        to[c * panel + j] = from[j * source.row_stride + c * source.channel_stride];
  }
}

inline void pack_rows(const StridedRows& source, std::int64_t rows, std::int64_t dim, std::int64_t padded_dim,
                      float* packed) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* from = source.data + r * source.row_stride;
    float* to = packed + r * padded_dim;
    if (source.channel_stride == 1)
      std::copy(from, from + dim, to);
    else
      for (std::int64_t c = 0; c < dim; ++c) to[c] = from[c * source.channel_stride];
    std::fill(to + dim, to + padded_dim, 0.0f);
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

inline void exp2_array(const float* in, float* out, std::int64_t count) {
  const Floats d;
  for (std::int64_t i = 0; i < count; i += lanes) {
    float buffer[forward_tile.panel] = {};
    const auto n = static_cast<std::size_t>(std::min(lanes, count - i));
    std::memcpy(buffer, in + i, n * sizeof(float));
    hn::StoreU(exp2_nonpositive(d, hn::LoadU(d, buffer)), d, buffer);
    std::memcpy(out + i, buffer, n * sizeof(float));
  }
}

const TileFunctions* functions() {
  static const TileFunctions table{
      hwy::TargetName(HWY_TARGET), lanes, pack_keys, pack_rows, scores, weights, largest, values, exp2_array};
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

void pack_queries(const StridedRows& source, std::int64_t first, std::int64_t rows, std::int64_t head_dim,
                  double factor, float* packed) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t at = first + r;
    float* to = packed + at / forward_tile.rows * forward_tile.rows * head_dim + at % forward_tile.rows;
    const float* from = source.data + r * source.row_stride;
    for (std::int64_t c = 0; c < head_dim; ++c)
      to[c * forward_tile.rows] = static_cast<float>(factor * from[c * source.channel_stride]);
  }
}

}  // namespace runmax::cpu
#endif
