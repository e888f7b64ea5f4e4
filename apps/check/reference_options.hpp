// The options of one head for the reference, from packed arrays.
#pragma once

#include <cstdint>

#include "inputs/draw_options.hpp"
#include "reference/reference.hpp"
#include "runmax/dropout.hpp"
#include "runmax/problem.hpp"

namespace runmax::check {

// Where query i of a head of a mask or bias begins, and from one key to the next.
struct OptionRows {
  std::array<std::int64_t, 4> shape{};
  std::int64_t head_start = 0;

  OptionRows(const std::array<std::int64_t, 4>& shape_of, std::int64_t b, std::int64_t h) : shape(shape_of) {
    head_start = ((shape[0] == 1 ? 0 : b) * shape[1] + (shape[1] == 1 ? 0 : h)) * shape[2];
  }
  std::size_t place(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>((head_start + (shape[2] == 1 ? 0 : i)) * shape[3] +
                                    (shape[3] == 1 ? 0 : j));
  }
};

// `options` must outlive what is returned. `diagonal` is the key at distance 0 of query 0.
inline reference::ScoreOptions reference_options(const Problem& p, const inputs::HostOptions& options,
                                                 std::int64_t b, std::int64_t h, std::int64_t diagonal) {
  reference::ScoreOptions result;
  result.softcap = p.softcap;
  if (p.mask) {
    const OptionRows rows(options.mask_shape, b, h);
    result.mask = [rows, &options](std::int64_t i, std::int64_t j) {
      return options.mask[rows.place(i, j)] != 0;
    };
  }
  if (p.bias) {
    const OptionRows rows(options.bias_shape, b, h);
    result.bias = [rows, &options](std::int64_t i, std::int64_t j) {
      return static_cast<double>(options.bias[rows.place(i, j)]);
    };
  }
  const auto head = static_cast<std::size_t>(h), heads = static_cast<std::size_t>(p.query_heads);
  if (p.alibi) {
    const bool one_for_all = options.alibi_slopes.size() == heads;
    result.slope = options.alibi_slopes[(one_for_all ? 0 : static_cast<std::size_t>(b) * heads) + head];
    result.diagonal_offset = diagonal;
  }
  if (p.sink) result.sink = {static_cast<double>(options.sink[head])};
  if (p.dropout != 0) {
    const PhiloxKey key = dropout_key(options.dropout_seed, options.dropout_offset, b, h);
    const std::uint32_t threshold = dropout_threshold(p.dropout);
    result.keeps = [key, threshold](std::int64_t i, std::int64_t j) {
      return dropout_keeps(key, threshold, i, j);
    };
    result.kept_factor = 1 / (1 - p.dropout);
  }
  return result;
}

}  // namespace runmax::check
