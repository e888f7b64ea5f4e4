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
#include <type_traits>

#include "kernels/forward/cpu/exp2-inl.hpp"
#include "kernels/forward/cpu/products-inl.hpp"
#include "kernels/forward/cpu/reduce-inl.hpp"

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

// True if all rows see the same keys, as most do without a mask.
HWY_INLINE bool all_agree(const TileKeys* keys, std::int64_t rows) {
  bool agree = true;
  for (std::int64_t r = 1; r < rows; ++r) agree &= keys[r] == keys[0];
  return agree;
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

// Channels [c0, c0 + depth) of a tile's scores.
struct ScoreStep {
  std::int64_t c0;
  std::int64_t depth;
  bool last;
};

// `tiles` register tiles of `rows` rows against the same panels.
template <int rows, Into into>
HWY_NOINLINE void score_strip(const ScoreTile& t, std::int64_t first, std::int64_t tiles, TileKeys panels,
                              const ScoreStep& step) {
  const std::int64_t panel_stride = t.head_dim * forward_tile.panel;
  const float* q = t.q + first * t.head_dim + step.c0;
  float* lane_max = step.last && t.lane_max ? t.lane_max + first * forward_tile.panel : nullptr;
  float* scores = t.scores + first * t.scores_stride;
  const auto strip = [&](auto vectors, std::int64_t key) HWY_ATTR {
    score_register_tiles<rows, decltype(vectors)::value, into>(
        tiles, q, t.head_dim,
        t.k + key / forward_tile.panel * panel_stride + step.c0 * forward_tile.panel +
            key % forward_tile.panel,
        panel_stride, step.depth, scores + key, t.scores_stride, lane_max, t.ahead);
  };
  std::int64_t key = panels.begin * forward_tile.panel;
  const std::int64_t end = panels.end * forward_tile.panel;
  for (; key + tile_width <= end; key += tile_width) strip(std::integral_constant<int, tile_vectors>(), key);
  for (; key < end; key += lanes) strip(std::integral_constant<int, 1>(), key);
}

template <Into into>
HWY_INLINE void score_rows(const ScoreTile& t, std::int64_t first, std::int64_t rows, TileKeys panels,
                           const ScoreStep& step) {
  if (rows >= forward_tile.rows)
    score_strip<tile_rows, into>(t, first, rows / forward_tile.rows, panels, step);
  first += rows / forward_tile.rows * forward_tile.rows;
  switch (rows % forward_tile.rows) {
    case 1:
      score_strip<1, into>(t, first, 1, panels, step);
      break;
    case 2:
      score_strip<2, into>(t, first, 1, panels, step);
      break;
    case 3:
      score_strip<3, into>(t, first, 1, panels, step);
      break;
    case 4:
      score_strip<4, into>(t, first, 1, panels, step);
      break;
    case 5:
      score_strip<5, into>(t, first, 1, panels, step);
      break;
    default:
      break;
  }
}

inline void scores(const ScoreTile& t) {
  constexpr auto group =
      static_cast<std::int32_t>(std::max<std::int64_t>(tile_width / forward_tile.panel, 1));
  if (t.lane_max)
    std::fill(t.lane_max, t.lane_max + t.rows * forward_tile.panel, std::numeric_limits<float>::lowest());
  if (t.head_dim == 0) {
    // Sums of nothing.
    for (std::int64_t r = 0; r < t.rows; ++r) {
      std::fill_n(t.scores + r * t.scores_stride, hull(t.keys, t.rows).end, 0.0f);
      if (t.lane_max) std::fill_n(t.lane_max + r * forward_tile.panel, forward_tile.panel, 0.0f);
    }
    return;
  }
  const std::int64_t steps =
      std::max<std::int64_t>((t.head_dim + forward_tile.depth - 1) / forward_tile.depth, 1);
  const std::int64_t depth = (t.head_dim + steps - 1) / steps;
  const auto rows_of = [&](std::int64_t first, std::int64_t rows, TileKeys part, const ScoreStep& step)
                           HWY_ATTR {
                             if (step.c0 == 0)
                               score_rows<Into::fresh>(t, first, rows, part, step);
                             else
                               score_rows<Into::accumulate>(t, first, rows, part, step);
                           };
  const bool agree = all_agree(t.keys, t.rows);
  // Most register tiles touch the same panels in every group: found once, not per group.
  TileKeys panels[forward_tile.block_q / forward_tile.rows];
  TileKeys all = panels_of(t.keys, 1);
  if (!agree) {
    for (std::int64_t first = 0; first < t.rows; first += forward_tile.rows)
      panels[first / forward_tile.rows] =
          panels_of(t.keys + first, std::min(forward_tile.rows, t.rows - first));
    all = hull(panels, (t.rows + forward_tile.rows - 1) / forward_tile.rows);
  }
  // A group of panels stays in the first-level cache while every row passes over it.
  for (std::int32_t g = all.begin / group * group; g < all.end; g += group)
    for (std::int64_t c0 = 0; c0 == 0 || c0 < t.head_dim; c0 += depth) {
      const ScoreStep step{c0, std::min(depth, t.head_dim - c0), c0 + depth >= t.head_dim};
      if (agree) {
        rows_of(0, t.rows, cut(all, g, g + group), step);
        continue;
      }
      for (std::int64_t first = 0, end; first < t.rows; first = end) {
        const TileKeys part = cut(panels[first / forward_tile.rows], g, g + group);
        end = first + forward_tile.rows;
        while (end < t.rows && cut(panels[end / forward_tile.rows], g, g + group) == part)
          end += forward_tile.rows;
        end = std::min(end, t.rows);
        if (part.begin < part.end) rows_of(first, end - first, part, step);
      }
    }
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

// Maxima and rescale factors of a tile's rows, all before the first weight: one row's are a chain of
// shuffles and an exponential that nothing else could hide.
HWY_INLINE void raise_maxima(const WeightTile& t) {
  const Floats d;
  const Vector scale = hn::Set(d, t.exponent_scale);
  const Vector lowest = hn::Set(d, lowest_exponent(t.exponent_scale));
  float most[forward_tile.block_q];
  const bool from_lanes = t.lane_max && t.keys[0].begin < t.keys[0].end &&
                          t.keys[0].begin % forward_tile.panel == 0 &&
                          t.keys[0].end % forward_tile.panel == 0 && all_agree(t.keys, t.rows);
  if (from_lanes)
    for (std::int64_t r = 0; r < t.rows; r += 4) {
      Vector lane_max[4];
      float four[4];
      for (std::int64_t i = 0; i < 4; ++i)
        lane_max[i] = hn::LoadU(d, t.lane_max + std::min(r + i, t.rows - 1) * forward_tile.panel);
      maxima_of_lanes(lane_max, four);
      std::copy_n(four, std::min<std::int64_t>(4, t.rows - r), most + r);
    }
  for (std::int64_t first = 0; first < t.rows; first += forward_tile.rows) {
    const std::int64_t rows = std::min(forward_tile.rows, t.rows - first);
    const TileKeys panels = from_lanes ? TileKeys{} : panels_of(t.keys + first, rows);
    for (std::int64_t r = first; r < first + rows; ++r) {
      const TileKeys keys = t.keys[r];
      const float old_max = t.states.max[r];
      // The difference to the new maximum, for now.
      t.states.rescale[r] = 0.0f;
      if (keys.begin >= keys.end) continue;
      // The lanes' maxima count every written panel: right only for a row that sees all of them.
      const bool sees_all_panels = !from_lanes && t.lane_max &&
                                   keys.begin == panels.begin * forward_tile.panel &&
                                   keys.end == panels.end * forward_tile.panel;
      const float tile_max =
          from_lanes ? most[r]
          : sees_all_panels
              ? hn::GetLane(hn::MaxOfLanes(d, hn::LoadU(d, t.lane_max + r * forward_tile.panel)))
              : largest_score(t.scores + r * t.scores_stride, keys);
      if (tile_max <= old_max) continue;
      t.states.max[r] = tile_max;
      t.states.rescale[r] = old_max - tile_max;
    }
  }
  for (std::int64_t r = 0; r < t.rows; r += lanes) {
    const auto count = static_cast<std::size_t>(std::min(lanes, t.rows - r));
    HWY_ALIGN float factors[forward_tile.panel] = {};
    std::copy_n(t.states.rescale + r, count, factors);
    hn::Store(exp2_scaled(d, hn::Load(d, factors), scale, lowest), d, factors);
    std::copy_n(factors, count, t.states.rescale + r);
  }
}

inline void weights(const WeightTile& t) {
  const Floats d;
  const Vector scale = hn::Set(d, t.exponent_scale);
  const Vector lowest = hn::Set(d, lowest_exponent(t.exponent_scale));
  raise_maxima(t);
  const auto weigh_row = [&](std::int64_t r) HWY_ATTR {
    const TileKeys keys = t.keys[r];
    if (keys.begin >= keys.end) return hn::Zero(d);
    float* row = t.scores + r * t.scores_stride;
    const Vector max = hn::Set(d, t.states.max[r]);
    // Four sums: fewer additions in a row, and no waiting for the one before.
    Vector sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    const auto weigh = [&](auto& p, std::int64_t j) HWY_ATTR {
      RUNMAX_UNROLL
      for (Vector& x : p) {
        x = hn::Sub(hn::LoadU(d, row + j), max);
        j += lanes;
      }
      exp2_scaled(d, p, scale, lowest);
    };
    const auto masked = [&](std::int64_t j) HWY_ATTR {
      Vector p[1];
      weigh(p, j);
      p[0] = hn::IfThenElseZero(lanes_between(j, keys), p[0]);
      hn::StoreU(p[0], d, row + j);
      return p[0];
    };
    std::int64_t j = keys.begin / lanes * lanes;
    if (j < keys.begin) {
      sum[3] = masked(j);
      j += lanes;
    }
    for (; j + 4 * lanes <= keys.end; j += 4 * lanes) {
      Vector p[4];
      weigh(p, j);
      RUNMAX_UNROLL
      for (int u = 0; u < 4; ++u) {
        hn::StoreU(p[u], d, row + j + u * lanes);
        sum[u] = hn::Add(sum[u], p[u]);
      }
    }
    for (; j + lanes <= keys.end; j += lanes) {
      Vector p[1];
      weigh(p, j);
      hn::StoreU(p[0], d, row + j);
      sum[0] = hn::Add(sum[0], p[0]);
    }
    if (j < keys.end) sum[1] = hn::Add(sum[1], masked(j));
    return hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
  };
  for (std::int64_t first = 0; first < t.rows; first += 4) {
    const std::int64_t count = std::min<std::int64_t>(4, t.rows - first);
    HWY_ALIGN float totals[4 * forward_tile.panel] = {};
    float sums[4];
    for (std::int64_t i = 0; i < count; ++i)
      hn::Store(weigh_row(first + i), d, totals + i * forward_tile.panel);
    const Vector four[4] = {hn::Load(d, totals), hn::Load(d, totals + forward_tile.panel),
                            hn::Load(d, totals + 2 * forward_tile.panel),
                            hn::Load(d, totals + 3 * forward_tile.panel)};
    sums_of_lanes(four, sums);
    for (std::int64_t i = 0; i < count; ++i)
      t.states.sum[first + i] = t.states.sum[first + i] * t.states.rescale[first + i] + sums[i];
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

// out (rows, out_stride) += weights * V over `keys`, for all channels of the group: `tiles` register tiles of
// `rows` rows, one below the other.
template <int rows, Into into, From from = From::cache>
HWY_NOINLINE void value_strip(const ValueTile& t, const ValueGroup& group, std::int64_t first,
                              std::int64_t tiles, TileKeys keys, float* out, std::int64_t out_stride) {
  const auto strip = [&](auto vectors, std::int64_t channel) HWY_ATTR {
    value_register_tiles<rows, decltype(vectors)::value, into, from>(
        tiles, t.weights + first * t.weights_stride + keys.begin, t.weights_stride,
        group.v + keys.begin * group.stride + channel, group.stride, keys.end - keys.begin, out + channel,
        out_stride, decltype(vectors)::value * lanes);
  };
  std::int64_t c = 0;
  for (; c + tile_width <= group.width; c += tile_width)
    strip(std::integral_constant<int, tile_vectors>(), c);
  for (; c < group.width; c += lanes) strip(std::integral_constant<int, 1>(), c);
}

template <Into into, From from = From::cache>
HWY_NOINLINE void value_rows(const ValueTile& t, const ValueGroup& group, std::int64_t first,
                             std::int64_t rows, TileKeys keys, float* out, std::int64_t out_stride) {
  const std::int64_t whole = rows / forward_tile.rows;
  if (whole > 0) value_strip<tile_rows, into, from>(t, group, first, whole, keys, out, out_stride);
  first += whole * forward_tile.rows;
  out += whole * forward_tile.rows * out_stride;
  switch (rows % forward_tile.rows) {
    case 1:
      value_strip<1, into, from>(t, group, first, 1, keys, out, out_stride);
      break;
    case 2:
      value_strip<2, into, from>(t, group, first, 1, keys, out, out_stride);
      break;
    case 3:
      value_strip<3, into, from>(t, group, first, 1, keys, out, out_stride);
      break;
    case 4:
      value_strip<4, into, from>(t, group, first, 1, keys, out, out_stride);
      break;
    case 5:
      value_strip<5, into, from>(t, group, first, 1, keys, out, out_stride);
      break;
    default:
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
      value_strip<1, Into::accumulate>(t, group, first + r, 1, keys, sums + r * forward_tile.value_group, 0);
  };
  const bool some = common.begin < common.end;
  for (std::int64_t r = 0; r < rows; ++r) row(r, begin, some ? common.begin : end);
  if (some) {
    value_rows<Into::accumulate>(t, group, first, rows, common, sums, forward_tile.value_group);
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
  friend bool operator==(const SharedKeys&, const SharedKeys&) = default;
};

HWY_INLINE SharedKeys shared_keys(const TileKeys* keys, std::int64_t rows) {
  SharedKeys shared{keys[0]};
  for (std::int64_t r = 1; r < rows; ++r) shared.agree = shared.agree && keys[r] == keys[0];
  return shared;
}

inline void values(const ValueTile& t) {
  if (t.rescale) rescale_rows(t);
  const auto add = [&](const ValueGroup& group, std::int64_t first, std::int64_t rows,
                       TileKeys keys) HWY_ATTR {
    float* out = t.out + first * t.padded_value_dim + group.channel;
    if (t.v.from_memory)
      value_rows<Into::fresh, From::memory>(t, group, first, rows, keys, out, t.padded_value_dim);
    else
      value_rows<Into::fresh>(t, group, first, rows, keys, out, t.padded_value_dim);
  };
  const bool agree = all_agree(t.keys, t.rows);
  SharedKeys shared[forward_tile.block_q / forward_tile.rows];
  if (!agree)
    for (std::int64_t first = 0; first < t.rows; first += forward_tile.rows)
      shared[first / forward_tile.rows] =
          shared_keys(t.keys + first, std::min(forward_tile.rows, t.rows - first));
  // Rows that differ elsewhere may agree within a chain.
  const auto shared_in = [&](std::int64_t first, std::int64_t begin, std::int64_t end) HWY_ATTR {
    SharedKeys own = shared[first / forward_tile.rows];
    if (!own.agree) {
      own.agree = true;
      const std::int64_t rows = std::min(forward_tile.rows, t.rows - first);
      for (std::int64_t r = 1; r < rows; ++r)
        own.agree = own.agree && cut(t.keys[first + r], begin, end) == cut(t.keys[first], begin, end);
    }
    own.keys = cut(own.keys, begin, end);
    return own;
  };
  const TileKeys all = agree ? t.keys[0] : hull(t.keys, t.rows);
  for (std::int64_t begin = all.begin / forward_tile.chain * forward_tile.chain; begin < all.end;
       begin += forward_tile.chain) {
    const std::int64_t end = begin + forward_tile.chain;
    for (std::int64_t channel = 0; channel < t.padded_value_dim; channel += forward_tile.value_group) {
      const ValueGroup group = value_group(t, channel);
      if (agree) {
        add(group, 0, t.rows, cut(all, begin, end));
        continue;
      }
      for (std::int64_t first = 0, end_row; first < t.rows; first = end_row) {
        const SharedKeys own = shared_in(first, begin, end);
        end_row = std::min(first + forward_tile.rows, t.rows);
        if (!own.agree) {
          ragged_values(t, group, first, end_row - first, begin, end);
          continue;
        }
        while (end_row < t.rows && shared_in(end_row, begin, end) == own)
          end_row = std::min(end_row + forward_tile.rows, t.rows);
        if (own.keys.begin < own.keys.end) add(group, first, end_row - first, own.keys);
      }
    }
  }
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
