// The loops over register tiles: scores, weights and values of one tile of keys.
#if defined(RUNMAX_KERNELS_FORWARD_CPU_BLOCKS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_FORWARD_CPU_BLOCKS_INL_HPP
#undef RUNMAX_KERNELS_FORWARD_CPU_BLOCKS_INL_HPP
#else
#define RUNMAX_KERNELS_FORWARD_CPU_BLOCKS_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/forward/cpu/exp2-inl.hpp"
#include "kernels/forward/cpu/products-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Smallest range that holds every row's keys; empty rows do not count.
HWY_INLINE TileKeys hull(const TileKeys* keys, std::int64_t rows) {
  TileKeys all;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (keys[r].begin >= keys[r].end) continue;
    if (all.begin >= all.end) {
      all = keys[r];
      continue;
    }
    all.begin = std::min(all.begin, keys[r].begin);
    all.end = std::max(all.end, keys[r].end);
  }
  return all;
}

// `keys` cut to [begin, end).
HWY_INLINE TileKeys cut(TileKeys keys, std::int64_t begin, std::int64_t end) {
  const auto low = static_cast<std::int32_t>(std::max<std::int64_t>(keys.begin, begin));
  const auto high = static_cast<std::int32_t>(std::min<std::int64_t>(keys.end, end));
  return {std::min(low, high), high};
}

// Panels [begin, end) that a register tile of rows touches.
HWY_INLINE TileKeys panels_of(const TileKeys* keys, std::int64_t rows) {
  constexpr auto panel = static_cast<std::int32_t>(forward_tile.panel);
  const TileKeys all = hull(keys, rows);
  if (all.begin >= all.end) return {};
  return {all.begin / panel, (all.end + panel - 1) / panel};
}

template <int rows>
HWY_NOINLINE void score_row_block(const ScoreTile& t, std::int64_t first, TileKeys panels, std::int64_t c0,
                                  std::int64_t depth, bool last) {
  const std::int64_t panel_stride = t.head_dim * forward_tile.panel;
  const float* q = t.q + first * t.head_dim + c0 * forward_tile.rows;
  float* lane_max = last && t.lane_max ? t.lane_max + first * forward_tile.panel : nullptr;
  const Into into = c0 == 0 ? Into::fresh : Into::accumulate;
  std::int64_t key = panels.begin * forward_tile.panel;
  const std::int64_t end = panels.end * forward_tile.panel;
  const auto source = [&](std::int64_t j) HWY_ATTR {
    return t.k + j / forward_tile.panel * panel_stride + c0 * forward_tile.panel + j % forward_tile.panel;
  };
  float* scores = t.scores + first * t.scores_stride;
  for (; key + tile_width <= end; key += tile_width)
    score_register_tile<rows, tile_vectors>(q, source(key), panel_stride, depth, into, scores + key,
                                            t.scores_stride, lane_max);
  for (; key < end; key += lanes)
    score_register_tile<rows, 1>(q, source(key), panel_stride, depth, into, scores + key, t.scores_stride,
                                 lane_max);
}

inline void scores(const ScoreTile& t) {
  constexpr auto group =
      static_cast<std::int32_t>(std::max<std::int64_t>(tile_width / forward_tile.panel, 1));
  if (t.lane_max)
    std::fill(t.lane_max, t.lane_max + t.rows * forward_tile.panel, std::numeric_limits<float>::lowest());
  const std::int64_t steps =
      std::max<std::int64_t>((t.head_dim + forward_tile.depth - 1) / forward_tile.depth, 1);
  const std::int64_t depth = (t.head_dim + steps - 1) / steps;
  // Most register tiles touch the same panels in every group: found once, not per group.
  TileKeys panels[forward_tile.block_q / forward_tile.rows];
  TileKeys all;
  for (std::int64_t first = 0; first < t.rows; first += forward_tile.rows)
    panels[first / forward_tile.rows] =
        panels_of(t.keys + first, std::min(forward_tile.rows, t.rows - first));
  all = hull(panels, (t.rows + forward_tile.rows - 1) / forward_tile.rows);
  // A group of panels stays in the first-level cache while every row passes over it.
  for (std::int32_t g = all.begin / group * group; g < all.end; g += group)
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t c0 = step * depth;
      const std::int64_t count = std::min(depth, t.head_dim - c0);
      const bool last = step + 1 == steps;
      for (std::int64_t first = 0; first < t.rows; first += forward_tile.rows) {
        const std::int64_t rows = std::min(forward_tile.rows, t.rows - first);
        const TileKeys part = cut(panels[first / forward_tile.rows], g, g + group);
        if (part.begin >= part.end) continue;
        switch (rows) {
          case 1:
            score_row_block<1>(t, first, part, c0, count, last);
            break;
          case 2:
            score_row_block<2>(t, first, part, c0, count, last);
            break;
          case 3:
            score_row_block<3>(t, first, part, c0, count, last);
            break;
          case 4:
            score_row_block<4>(t, first, part, c0, count, last);
            break;
          case 5:
            score_row_block<5>(t, first, part, c0, count, last);
            break;
          default:
            score_row_block<tile_rows>(t, first, part, c0, count, last);
            break;
        }
      }
    }
}

// Lanes [begin, end) of a vector that starts at key `at`.
HWY_INLINE hn::Mask<Floats> lanes_between(std::int64_t at, TileKeys keys) {
  const Floats d;
  const auto low = static_cast<std::size_t>(std::clamp<std::int64_t>(keys.begin - at, 0, lanes));
  const auto high = static_cast<std::size_t>(std::clamp<std::int64_t>(keys.end - at, 0, lanes));
  return hn::AndNot(hn::FirstN(d, low), hn::FirstN(d, high));
}

HWY_INLINE float largest_score(const float* scores, TileKeys keys) {
  const Floats d;
  const Vector lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  Vector largest = lowest;
  for (std::int64_t j = keys.begin / lanes * lanes; j < keys.end; j += lanes) {
    const Vector score = hn::IfThenElse(lanes_between(j, keys), hn::LoadU(d, scores + j), lowest);
    largest = hn::Max(score, largest);
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

inline void weights(const WeightTile& t) {
  const Floats d;
  const Vector scale = hn::Set(d, t.exponent_scale);
  const Vector lowest = hn::Set(d, lowest_exponent(t.exponent_scale));
  for (std::int64_t first = 0; first < t.rows; first += forward_tile.rows) {
    const std::int64_t rows = std::min(forward_tile.rows, t.rows - first);
    const TileKeys panels = panels_of(t.keys + first, rows);
    for (std::int64_t r = first; r < first + rows; ++r) {
      const TileKeys keys = t.keys[r];
      t.states.rescale[r] = 1.0f;
      if (keys.begin >= keys.end) continue;
      float* row = t.scores + r * t.scores_stride;
      // The lanes' maxima count every written panel: right only for a row that sees all of them.
      const bool sees_all_panels = t.lane_max && keys.begin == panels.begin * forward_tile.panel &&
                                   keys.end == panels.end * forward_tile.panel;
      const float tile_max =
          sees_all_panels ? hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, t.lane_max + r * forward_tile.panel)))
                          : largest_score(row, keys);
      const float old_max = t.states.max[r];
      const float new_max = std::max(old_max, tile_max);
      const Vector max = hn::Set(d, new_max);
      const float rescale =
          new_max == old_max ? 1.0f
                             : hn::GetLane(exp2_scaled(d, hn::Sub(hn::Set(d, old_max), max), scale, lowest));

      // Four sums: fewer additions in a row, and no waiting for the one before.
      Vector sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
      const auto weight = [&](std::int64_t j) HWY_ATTR {
        return exp2_scaled(d, hn::Sub(hn::LoadU(d, row + j), max), scale, lowest);
      };
      const auto masked = [&](std::int64_t j) HWY_ATTR {
        const Vector p = hn::IfThenElseZero(lanes_between(j, keys), weight(j));
        hn::StoreU(p, d, row + j);
        return p;
      };
      std::int64_t j = keys.begin / lanes * lanes;
      if (j < keys.begin) {
        sum[3] = masked(j);
        j += lanes;
      }
      for (; j + 4 * lanes <= keys.end; j += 4 * lanes) {
        RUNMAX_UNROLL
        for (int u = 0; u < 4; ++u) {
          const Vector p = weight(j + u * lanes);
          hn::StoreU(p, d, row + j + u * lanes);
          sum[u] = hn::Add(sum[u], p);
        }
      }
      for (; j + lanes <= keys.end; j += lanes) {
        const Vector p = weight(j);
        hn::StoreU(p, d, row + j);
        sum[0] = hn::Add(sum[0], p);
      }
      if (j < keys.end) sum[1] = hn::Add(sum[1], masked(j));
      const Vector total = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
      t.states.max[r] = new_max;
      t.states.sum[r] = t.states.sum[r] * rescale + hn::GetLane(hn::SumOfLanes(d, total));
      t.states.rescale[r] = rescale;
    }
  }
}

// A group of channels of a tile's V.
struct ValueGroup {
  const float* v;  // at the tile's first key
  std::int64_t stride;
  std::int64_t channel;
  std::int64_t width;
};

HWY_INLINE ValueGroup value_group(const ValueTile& t, std::int64_t channel) {
  const std::int64_t width = std::min(forward_tile.value_group, t.padded_value_dim - channel);
  const std::int64_t stride = t.v.row_stride != 0 ? t.v.row_stride : width;
  return {t.v.data + channel / forward_tile.value_group * t.v.group_stride + t.v.first_key * stride, stride,
          channel, width};
}

// out (rows, out_stride) += weights * V over `keys`, for all channels of the group.
template <int rows>
HWY_NOINLINE void value_row_block(const ValueTile& t, const ValueGroup& group, std::int64_t first,
                                  TileKeys keys, Into into, float* out, std::int64_t out_stride) {
  const float* p = t.weights + first * t.weights_stride + keys.begin;
  const float* v = group.v + keys.begin * group.stride;
  const std::int64_t ahead = t.v.from_memory ? prefetch_rows * group.stride : 0;
  std::int64_t c = 0;
  for (; c + tile_width <= group.width; c += tile_width)
    value_register_tile<rows, tile_vectors>(p, t.weights_stride, v + c, group.stride, keys.end - keys.begin,
                                            into, out + c, out_stride, ahead);
  for (; c < group.width; c += lanes)
    value_register_tile<rows, 1>(p, t.weights_stride, v + c, group.stride, keys.end - keys.begin, into,
                                 out + c, out_stride, ahead);
}

HWY_NOINLINE void value_rows(const ValueTile& t, const ValueGroup& group, std::int64_t first,
                             std::int64_t rows, TileKeys keys, Into into, float* out,
                             std::int64_t out_stride) {
  switch (rows) {
    case 1:
      value_row_block<1>(t, group, first, keys, into, out, out_stride);
      break;
    case 2:
      value_row_block<2>(t, group, first, keys, into, out, out_stride);
      break;
    case 3:
      value_row_block<3>(t, group, first, keys, into, out, out_stride);
      break;
    case 4:
      value_row_block<4>(t, group, first, keys, into, out, out_stride);
      break;
    case 5:
      value_row_block<5>(t, group, first, keys, into, out, out_stride);
      break;
    default:
      value_row_block<tile_rows>(t, group, first, keys, into, out, out_stride);
      break;
  }
}

// Rows whose visible keys differ: those that all see together, the others row by row, so that no weight of 0
// meets a value that its row does not see, which may be NaN. One chain of additions per output in ascending
// order of keys, as in a tile where all rows agree, so that a row has the same bits in any tile.
HWY_INLINE void ragged_values(const ValueTile& t, const ValueGroup& group, std::int64_t first,
                              std::int64_t rows, std::int64_t begin, std::int64_t end) {
  const Floats d;
  TileKeys common = cut(t.keys[first], begin, end);
  for (std::int64_t r = 1; r < rows; ++r)
    common = cut(common, t.keys[first + r].begin, t.keys[first + r].end);
  HWY_ALIGN float sums[forward_tile.rows * forward_tile.value_group];
  std::fill(sums, sums + rows * forward_tile.value_group, 0.0f);
  const auto row = [&](std::int64_t r, std::int64_t from, std::int64_t to) HWY_ATTR {
    const TileKeys keys = cut(cut(t.keys[first + r], begin, end), from, to);
    if (keys.begin < keys.end)
      value_row_block<1>(t, group, first + r, keys, Into::accumulate, sums + r * forward_tile.value_group, 0);
  };
  const bool some = common.begin < common.end;
  for (std::int64_t r = 0; r < rows; ++r) row(r, begin, some ? common.begin : end);
  if (some) {
    value_rows(t, group, first, rows, common, Into::accumulate, sums, forward_tile.value_group);
    for (std::int64_t r = 0; r < rows; ++r) row(r, common.end, end);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const TileKeys keys = cut(t.keys[first + r], begin, end);
    if (keys.begin >= keys.end) continue;
    float* out = t.out + (first + r) * t.padded_value_dim + group.channel;
    for (std::int64_t c = 0; c < group.width; c += lanes)
      hn::StoreU(hn::Add(hn::LoadU(d, out + c), hn::LoadU(d, sums + r * forward_tile.value_group + c)), d,
                 out + c);
  }
}

HWY_INLINE void rescale_rows(const ValueTile& t) {
  const Floats d;
  for (std::int64_t r = 0; r < t.rows; ++r) {
    if (t.rescale[r] == 1.0f) continue;
    const Vector factor = hn::Set(d, t.rescale[r]);
    float* out = t.out + r * t.padded_value_dim;
    for (std::int64_t c = 0; c < t.padded_value_dim; c += lanes)
      hn::StoreU(hn::Mul(factor, hn::LoadU(d, out + c)), d, out + c);
  }
}

// The keys of a register tile's rows, if they are the same for all of them.
struct SharedKeys {
  TileKeys keys;
  bool agree = true;
};

HWY_INLINE SharedKeys shared_keys(const TileKeys* keys, std::int64_t rows) {
  SharedKeys shared{keys[0]};
  for (std::int64_t r = 1; r < rows; ++r) shared.agree = shared.agree && keys[r] == keys[0];
  return shared;
}

inline void values(const ValueTile& t) {
  if (t.rescale) rescale_rows(t);
  SharedKeys shared[forward_tile.block_q / forward_tile.rows];
  for (std::int64_t first = 0; first < t.rows; first += forward_tile.rows)
    shared[first / forward_tile.rows] =
        shared_keys(t.keys + first, std::min(forward_tile.rows, t.rows - first));
  const TileKeys all = hull(t.keys, t.rows);
  for (std::int64_t begin = all.begin / forward_tile.chain * forward_tile.chain; begin < all.end;
       begin += forward_tile.chain) {
    const std::int64_t end = begin + forward_tile.chain;
    for (std::int64_t channel = 0; channel < t.padded_value_dim; channel += forward_tile.value_group) {
      const ValueGroup group = value_group(t, channel);
      for (std::int64_t first = 0; first < t.rows; first += forward_tile.rows) {
        const std::int64_t rows = std::min(forward_tile.rows, t.rows - first);
        SharedKeys own = shared[first / forward_tile.rows];
        // Rows that differ elsewhere may agree within this chain.
        for (std::int64_t r = 0; !own.agree && r < rows; ++r)
          if (cut(t.keys[first + r], begin, end) != cut(t.keys[first], begin, end))
            break;
          else
            own.agree = r + 1 == rows;
        if (!own.agree) {
          ragged_values(t, group, first, rows, begin, end);
          continue;
        }
        const TileKeys keys = cut(own.keys, begin, end);
        if (keys.begin >= keys.end) continue;
        value_rows(t, group, first, rows, keys, Into::fresh,
                   t.out + first * t.padded_value_dim + group.channel, t.padded_value_dim);
      }
    }
  }
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
