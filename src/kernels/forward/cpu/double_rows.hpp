// Rows of double as the register tiles of the double-precision kernels take them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/forward/cpu/double_tiles.hpp"
#include "kernels/forward/cpu/geometry.hpp"
#include "kernels/forward/cpu/kv_rows.hpp"
#include "kernels/forward/cpu/work.hpp"

namespace runmax::cpu {

// Channels of rows that are summed: whole vectors of every instruction set.
constexpr std::int64_t padded_width(std::int64_t dim) { return round_up(dim, 8); }

inline const double* double_row(const ElementRows& rows, std::int64_t row) {
  return static_cast<const double*>(rows.data) + row * rows.row_stride;
}

// One row into the left operand of `products`, at row r of tiles of 6: [tile][dim][6].
inline void pack_left(const ElementRows& rows, std::int64_t row, std::int64_t dim, double factor,
                      std::int64_t r, double* to) {
  const double* from = double_row(rows, row);
  to += r / double_tile.rows * double_tile.rows * dim + r % double_tile.rows;
  for (std::int64_t c = 0; c < dim; ++c) to[c * double_tile.rows] = factor * from[c * rows.channel_stride];
}

// A block of keys into the right operand, [panel][dim][32], the last panel filled up with zeros.
inline void pack_panels(const KvRows& keys, std::int64_t first, std::int64_t count, std::int64_t dim,
                        double* to) {
  constexpr std::int64_t panel = double_tile.panel;
  std::fill(to + count / panel * panel * dim, to + round_up(count, panel) * dim, 0.0);
  keys.for_each_run(first, count, [&](std::int64_t done, std::int64_t some, const ElementRows& from) {
    for (std::int64_t j = done; j < done + some; ++j) {
      const double* row = double_row(from, j - done);
      double* at = to + j / panel * panel * dim + j % panel;
      for (std::int64_t c = 0; c < dim; ++c) at[c * panel] = row[c * from.channel_stride];
    }
  });
}

// One row, filled up with zeros.
inline void pad_row(const ElementRows& rows, std::int64_t row, std::int64_t dim, double* to) {
  const double* from = double_row(rows, row);
  for (std::int64_t c = 0; c < dim; ++c) to[c] = from[c * rows.channel_stride];
  std::fill(to + dim, to + padded_width(dim), 0.0);
}

// A block of keys as rows that are summed, (count, padded_width(dim)).
inline void pad_rows(const KvRows& keys, std::int64_t first, std::int64_t count, std::int64_t dim,
                     double* to) {
  keys.for_each_run(first, count, [&](std::int64_t done, std::int64_t some, const ElementRows& from) {
    for (std::int64_t j = 0; j < some; ++j) pad_row(from, j, dim, to + (done + j) * padded_width(dim));
  });
}

// The keys or values of a KV head of a batch element, wherever they lie.
inline KvRows kv_rows_of(const Problem& p, const Tensors& tensors, const TensorView& view, std::int64_t batch,
                         std::int64_t kv_head, const Sequence& sequence) {
  if (p.page_size > 0) return {view, kv_head, tensors.page_table, batch, p.page_size, sequence.kv_len};
  return {view, p.varlen.empty() ? batch : 0, kv_head, sequence.kv_start};
}

// Calls run(begin, end) for each longest range of keys within [keys.begin, keys.end) that are visible; all
// are where `visible` is null.
template <class Run>
void for_each_visible_run(DoubleKeys keys, const std::uint8_t* visible, Run run) {
  if (!visible) {
    if (keys.begin < keys.end) run(keys.begin, keys.end);
    return;
  }
  for (std::int32_t begin = keys.begin; begin < keys.end;) {
    std::int32_t end = begin;
    while (end < keys.end && visible[end]) ++end;
    if (begin < end) run(begin, end);
    begin = end + 1;
  }
}

// Weighted sums of `rows` rows of a register tile: out (rows, width) += weights * values, over the visible
// columns of each row alone, so that no weight of 0 meets a value that may be NaN. `visible` has block_kv
// flags a row, or is null.
inline void add_visible_values(const DoubleFunctions& functions, const double* weights, const double* values,
                               std::int64_t width, std::int64_t rows, const DoubleKeys* keys,
                               const std::uint8_t* visible, double* out) {
  constexpr std::int64_t stride = double_tile.block_kv;
  bool agree = rows == double_tile.rows;
  for (std::int64_t r = 0; r < rows && agree; ++r) {
    agree = keys[r].begin == keys[0].begin && keys[r].end == keys[0].end;
    for (std::int32_t j = keys[r].begin; visible && agree && j < keys[r].end; ++j)
      agree = visible[r * stride + j] != 0;
  }
  const auto add = [&](std::int64_t r, std::int64_t together, std::int32_t begin, std::int32_t end) {
    functions.add_values(weights + r * stride + begin, values + begin * width, width, end - begin, together,
                         out + r * width);
  };
  if (agree) {
    if (keys[0].begin < keys[0].end) add(0, rows, keys[0].begin, keys[0].end);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for_each_visible_run(keys[r], visible ? visible + r * stride : nullptr,
                         [&](std::int32_t begin, std::int32_t end) { add(r, 1, begin, end); });
}

}  // namespace runmax::cpu
