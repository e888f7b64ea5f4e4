// The loops over register tiles of backward: the pairs of a tile, and what they add to dQ, dK and dV.
//
// Where rows see different keys, hidden pairs hold P = dS = 0 and go through the register tiles with the
// others: adding 0 times a finite number changes no bit of a sum. Where the row or key that they would
// multiply is not finite, the sums are taken pair by pair instead, over the visible ones alone.
#if defined(RUNMAX_KERNELS_BACKWARD_CPU_BLOCKS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_BACKWARD_CPU_BLOCKS_INL_HPP
#undef RUNMAX_KERNELS_BACKWARD_CPU_BLOCKS_INL_HPP
#else
#define RUNMAX_KERNELS_BACKWARD_CPU_BLOCKS_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "kernels/backward/cpu/products-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A range of keys or of rows of a tile, and whether every pair of it and its register tile is visible.
struct TileRange {
  std::int64_t begin = 0, end = 0;
  bool whole = true;
};

// The keys that some of `count` rows see, within [begin, end).
HWY_INLINE TileRange keys_seen(const TileKeys* visible, std::int64_t count, std::int64_t begin,
                               std::int64_t end) {
  if (!visible) return {begin, end, true};
  TileRange seen{end, begin, true};
  std::int64_t all_from = begin, all_to = end;
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t low = std::max<std::int64_t>(visible[r].begin, begin);
    const std::int64_t high = std::min<std::int64_t>(visible[r].end, end);
    all_from = std::max(all_from, low);
    all_to = std::min(all_to, high);
    if (low >= high) continue;
    seen.begin = std::min(seen.begin, low);
    seen.end = std::max(seen.end, high);
  }
  if (seen.begin >= seen.end) return {begin, begin, true};
  seen.whole = all_from == seen.begin && all_to == seen.end;
  return seen;
}

// The rows that see some of the keys [begin, end).
HWY_INLINE TileRange rows_seeing(const TileKeys* visible, std::int64_t rows, std::int64_t begin,
                                 std::int64_t end) {
  if (!visible) return {0, rows, true};
  TileRange seen{rows, 0, true};
  for (std::int64_t r = 0; r < rows; ++r) {
    if (visible[r].begin >= end || visible[r].end <= begin || visible[r].begin >= visible[r].end) continue;
    seen.begin = std::min(seen.begin, r);
    seen.end = r + 1;
  }
  if (seen.begin >= seen.end) return {0, 0, true};
  for (std::int64_t r = seen.begin; r < seen.end; ++r)
    seen.whole = seen.whole && visible[r].begin <= begin && visible[r].end >= end;
  return seen;
}

template <Pair pair, Epilogue epilogue>
HWY_NOINLINE void pair_row_block(const PairTile& t, std::int64_t first_row, TileRange keys, std::int64_t dim,
                                 std::int64_t c0, std::int64_t depth) {
  const std::int64_t panel_stride = dim * backward_tile.panel;
  const float* q = (pair == Pair::weights ? t.q : t.dout) + first_row * dim + c0 * backward_tile.rows;
  const float* k = pair == Pair::weights ? t.k : t.v;
  const Into into = c0 == 0 ? Into::fresh : Into::accumulate;
  const bool last = c0 + depth >= dim;
  const auto source = [&](std::int64_t j) HWY_ATTR {
    return k + j / backward_tile.panel * panel_stride + c0 * backward_tile.panel + j % backward_tile.panel;
  };
  std::int64_t key = keys.begin;
  for (; key + tile_width <= keys.end; key += tile_width)
    pair_register_tile<pair, epilogue, tile_vectors>(t, q, source(key), panel_stride, depth, into, last,
                                                     first_row, key);
  for (; key + 2 * lanes <= keys.end; key += 2 * lanes)
    pair_register_tile<pair, epilogue, 2>(t, q, source(key), panel_stride, depth, into, last, first_row, key);
  for (; key < keys.end; key += lanes)
    pair_register_tile<pair, epilogue, 1>(t, q, source(key), panel_stride, depth, into, last, first_row, key);
}

template <Pair pair, Epilogue epilogue>
HWY_INLINE void pair_block(const PairTile& t) {
  constexpr std::int64_t panel = backward_tile.panel;
  constexpr std::int64_t group = std::max<std::int64_t>(tile_width, panel);
  const std::int64_t dim = pair == Pair::weights ? t.head_dim : t.value_dim;
  const std::int64_t steps = std::max<std::int64_t>((dim + backward_tile.depth - 1) / backward_tile.depth, 1);
  const std::int64_t depth = (dim + steps - 1) / steps;
  // Whole panels that each register tile of rows touches.
  TileRange panels[backward_tile.block_q / backward_tile.rows];
  for (std::int64_t first = 0; first < t.rows; first += backward_tile.rows) {
    TileRange& own = panels[first / backward_tile.rows];
    own = keys_seen(t.visible ? t.visible + first : nullptr, std::min(backward_tile.rows, t.rows - first), 0,
                    t.keys);
    own.begin = own.begin / panel * panel;
    own.end = (own.end + panel - 1) / panel * panel;
  }
  // A group of panels stays in the first-level cache while every row passes over it.
  for (std::int64_t g = 0; g < t.keys; g += group)
    for (std::int64_t step = 0; step < steps; ++step)
      for (std::int64_t first = 0; first < t.rows; first += backward_tile.rows) {
        const TileRange& own = panels[first / backward_tile.rows];
        const TileRange part{std::max(own.begin, g), std::min(own.end, g + group)};
        if (part.begin < part.end)
          pair_row_block<pair, epilogue>(t, first, part, dim, step * depth,
                                         std::min(depth, dim - step * depth));
      }
}

inline void pairs(const PairTile& t) {
  pair_block<Pair::weights, Epilogue::finish>(t);
  pair_block<Pair::score_gradients, Epilogue::finish>(t);
  if (!t.visible) return;
  const std::int64_t width = (t.keys + backward_tile.panel - 1) / backward_tile.panel * backward_tile.panel;
  for (std::int64_t r = 0; r < t.rows; ++r)
    for (float* row : {t.weights + r * pair_stride, t.score_gradients + r * pair_stride}) {
      const TileKeys keys = t.visible[r];
      std::fill(row, row + std::min<std::int64_t>(keys.begin, width), 0.0f);
      std::fill(row + std::max(keys.begin, keys.end), row + width, 0.0f);
    }
}

inline void products(const PairTile& t) {
  pair_block<Pair::weights, Epilogue::none>(t);
  pair_block<Pair::score_gradients, Epilogue::none>(t);
}

// Zeros on both sides of the vectors that hold `keys`.
HWY_INLINE void clear_beside(float* row, TileKeys keys) {
  const std::int64_t begin = std::min<std::int64_t>(keys.begin, keys.end) / lanes * lanes;
  const std::int64_t end = keys.begin < keys.end ? (keys.end + lanes - 1) / lanes * lanes : begin;
  std::fill(row, row + begin, 0.0f);
  std::fill(row + end, row + backward_tile.block_kv, 0.0f);
}

inline void weigh_row(float* row, TileKeys keys, float lse, float exponent_scale) {
  const Floats d;
  const Vector scale = hn::Set(d, exponent_scale), lowest = hn::Set(d, lowest_exponent(exponent_scale));
  clear_beside(row, keys);
  for (std::int64_t j = keys.begin / lanes * lanes; j < keys.end; j += lanes) {
    const Vector x = hn::Sub(hn::LoadU(d, row + j), hn::Set(d, lse));
    const Vector p = exp2_scaled(d, at_most_zero(x), scale, lowest);
    hn::StoreU(hn::IfThenElseZero(lanes_between(j, keys), p), d, row + j);
  }
}

inline void gradient_row(const GradientRow& row) {
  const Floats d;
  const Vector zero = hn::Zero(d), delta = hn::Set(d, row.delta);
  clear_beside(row.score_gradients, row.keys);
  if (row.dropped) clear_beside(row.dropped, row.keys);
  if (row.final_gradients) clear_beside(row.final_gradients, row.keys);
  for (std::int64_t j = row.keys.begin / lanes * lanes; j < row.keys.end; j += lanes) {
    const Vector p = hn::LoadU(d, row.weights + j);
    const Vector dp = hn::LoadU(d, row.score_gradients + j);
    Vector gradient = zero;
    if (row.dropped) {
      const Vector kept = hn::Mul(hn::LoadU(d, row.dropped + j), hn::Set(d, row.kept_factor));
      gradient = hn::NegMulAdd(p, delta, hn::Mul(kept, dp));
      hn::StoreU(hn::IfThenElseZero(lanes_between(j, row.keys), kept), d, row.dropped + j);
    } else {
      gradient = hn::Mul(p, hn::Sub(dp, delta));
    }
    // A hidden key has P = 0, and its V may be anything. Not by Ne, which is false for NaN on some targets: a
    // NaN weight shows.
    gradient = hn::IfThenElseZero(hn::AndNot(hn::Eq(p, zero), lanes_between(j, row.keys)), gradient);
    if (row.final_gradients) hn::StoreU(gradient, d, row.final_gradients + j);
    if (row.cap_slope) {
      const Vector slope = hn::IfThenElse(hn::Eq(gradient, zero), zero, hn::LoadU(d, row.cap_slope + j));
      gradient = hn::Mul(gradient, slope);
    }
    hn::StoreU(gradient, d, row.score_gradients + j);
  }
}

// A group of packed channels.
struct ChannelGroup {
  const float* x;  // at the first packed row
  std::int64_t channel, width;
};

HWY_INLINE ChannelGroup channel_group(const PackedRows& rows, std::int64_t channel) {
  return {rows.data + channel * rows.rows, channel, std::min(backward_tile.group, rows.padded_dim - channel)};
}

// out (m, out_stride) += W X over `count` terms, for all channels of a group of that width.
template <WeightsOf order, int m>
HWY_INLINE void sum_block(const float* w, const float* x, std::int64_t width, std::int64_t count, Into into,
                          float* out, std::int64_t out_stride) {
  std::int64_t c = 0;
  for (; c + tile_width <= width; c += tile_width)
    sum_register_tile<order, m, tile_vectors>(w, x + c, width, count, into, out + c, out_stride);
  for (; c + 2 * lanes <= width; c += 2 * lanes)
    sum_register_tile<order, m, 2>(w, x + c, width, count, into, out + c, out_stride);
  for (; c < width; c += lanes)
    sum_register_tile<order, m, 1>(w, x + c, width, count, into, out + c, out_stride);
}

template <WeightsOf order>
HWY_NOINLINE void sum_rows(const float* w, const float* x, std::int64_t width, std::int64_t count, float* out,
                           std::int64_t out_stride) {
  sum_block<order, tile_rows>(w, x, width, count, Into::fresh, out, out_stride);
}

// One output row whose terms come in pieces: sums(add) calls add(weights, first row of X, how many).
template <WeightsOf order, class Sums>
HWY_INLINE void sum_pieces(const ChannelGroup& group, float* out, Sums sums) {
  HWY_ALIGN float total[backward_tile.group] = {};
  sums([&](const float* w, std::int64_t first, std::int64_t count) HWY_ATTR {
    sum_block<order, 1>(w, group.x + first * group.width, group.width, count, Into::accumulate, total, 0);
  });
  for (std::int64_t c = 0; c < group.width; ++c) out[c] += total[c];
}

inline void add_to_queries(const QueryTile& t) {
  for (std::int64_t begin = 0; begin < t.count; begin += backward_tile.chain)
    for (std::int64_t channel = 0; channel < t.keys.padded_dim; channel += backward_tile.group) {
      const ChannelGroup group = channel_group(t.keys, channel);
      const std::int64_t end = std::min(begin + backward_tile.chain, t.count);
      for (std::int64_t first = 0; first < t.rows; first += backward_tile.rows) {
        const std::int64_t rows = std::min(backward_tile.rows, t.rows - first);
        const TileRange keys = keys_seen(t.visible ? t.visible + first : nullptr, rows, begin, end);
        if (keys.begin >= keys.end) continue;
        const float* w = t.score_gradients + first * pair_stride;
        float* out = t.out + first * t.keys.padded_dim + channel;
        if ((keys.whole && !t.hidden_by) || t.keys.finite) {
          sum_rows<WeightsOf::a_row>(w + keys.begin, group.x + (t.first + keys.begin) * group.width,
                                     group.width, keys.end - keys.begin, out, t.keys.padded_dim);
          continue;
        }
        for (std::int64_t r = 0; r < rows; ++r) {
          const TileRange own = keys_seen(t.visible ? t.visible + first + r : nullptr, 1, begin, end);
          if (own.begin >= own.end) continue;
          sum_pieces<WeightsOf::a_row>(group, out + r * t.keys.padded_dim, [&](auto add) HWY_ATTR {
            if (!t.hidden_by) {
              add(w + r * pair_stride + own.begin, t.first + own.begin, own.end - own.begin);
              return;
            }
            const float* weights = t.hidden_by + (first + r) * pair_stride;
            for (std::int64_t j = own.begin; j < own.end; ++j)
              if (weights[j] != 0.0f) add(w + r * pair_stride + j, t.first + j, 1);
          });
        }
      }
    }
}

inline void add_to_keys(const KeyTile& t) {
  TileRange seeing[backward_tile.block_kv / backward_tile.rows];
  for (std::int64_t key = 0; key < t.count; key += backward_tile.rows)
    seeing[key / backward_tile.rows] =
        rows_seeing(t.visible, t.rows, key, std::min(key + backward_tile.rows, t.count));
  for (std::int64_t channel = 0; channel < t.queries.padded_dim; channel += backward_tile.group) {
    const ChannelGroup group = channel_group(t.queries, channel);
    for (std::int64_t first = 0; first < t.count; first += backward_tile.rows) {
      const TileRange rows = seeing[first / backward_tile.rows];
      if (rows.begin >= rows.end) continue;
      float* out = t.out + first * t.queries.padded_dim + channel;
      if ((rows.whole && !t.hidden_by) || t.queries.finite) {
        sum_rows<WeightsOf::a_column>(t.pairs + rows.begin * pair_stride + first,
                                      group.x + rows.begin * group.width, group.width, rows.end - rows.begin,
                                      out, t.queries.padded_dim);
        continue;
      }
      for (std::int64_t key = first; key < std::min(first + backward_tile.rows, t.count); ++key)
        sum_pieces<WeightsOf::a_column>(group, out + (key - first) * t.queries.padded_dim,
                                        [&](auto add) HWY_ATTR {
                                          for (std::int64_t r = rows.begin; r < rows.end; ++r)
                                            if (t.visible[r].begin <= key && key < t.visible[r].end)
                                              add(t.pairs + r * pair_stride + key, r, 1);
                                        });
    }
  }
}

// The same additions whatever the strides: channels that lie apart are first put side by side.
inline void row_dots(const StridedRows& a, const StridedRows& b, std::int64_t rows, std::int64_t channels,
                     float* delta) {
  constexpr std::int64_t piece = 64, sums = 8;
  float copy_a[piece], copy_b[piece];
  const auto side_by_side = [&](const StridedRows& of, std::int64_t r, std::int64_t c, std::int64_t count,
                                float* copy) HWY_ATTR -> const float* {
    const float* from = of.data + r * of.row_stride + c * of.channel_stride;
    if (of.channel_stride == 1) return from;
    for (std::int64_t n = 0; n < count; ++n) copy[n] = from[n * of.channel_stride];
    return copy;
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum[sums] = {};
    for (std::int64_t c = 0; c < channels; c += piece) {
      const std::int64_t count = std::min(piece, channels - c);
      const float* x = side_by_side(a, r, c, count, copy_a);
      const float* y = side_by_side(b, r, c, count, copy_b);
      std::int64_t n = 0;
      for (; n + sums <= count; n += sums)
        for (std::int64_t s = 0; s < sums; ++s)
          sum[s] += static_cast<double>(x[n + s]) * static_cast<double>(y[n + s]);
      for (; n < count; ++n) sum[n % sums] += static_cast<double>(x[n]) * static_cast<double>(y[n]);
    }
    double total = 0;
    for (const double s : sum) total += s;
    delta[r] = static_cast<float>(total);
  }
}

inline bool all_finite(const float* data, std::int64_t count) {
  const Floats d;
  // 0 times a number is 0, times an infinity or NaN it is NaN, and stays so in the sum.
  Vector sum = hn::Zero(d);
  std::int64_t n = 0;
  for (; n + lanes <= count; n += lanes) sum = hn::MulAdd(hn::LoadU(d, data + n), hn::Zero(d), sum);
  float rest = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; n < count; ++n) rest += data[n] * 0.0f;
  return rest == 0.0f;
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
