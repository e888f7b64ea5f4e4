// Q, K and V of a whole problem, drawn by its input kind and seed. C++20, as runmax/problem.hpp is; the parts
// it is made of are C++17.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "../../include/runmax/problem.hpp"
#include "draw_options.hpp"
#include "kinds.hpp"
#include "lengths.hpp"
#include "loud.hpp"
#include "random.hpp"
#include "stream.hpp"

namespace runmax {
namespace inputs {

// Packed, (batch, heads, length, dim), dim fastest. Where the elements of a batch have lengths of their own
// (varlen, seqused), each has its rows at the beginning and NaN behind them.
struct HostInputs {
  std::vector<float> q, k, v;
  std::vector<SequenceLengths> lengths{};  // of each batch element; empty: all are the problem's
  HostOptions options{};
};

// Draws f32 inputs; problem must be valid. The same problem text gives the same bits on every platform, and a
// head's numbers do not depend on the other heads.
inline HostInputs draw(const Problem& p) {
  HostInputs inputs;
  const auto size = [](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return static_cast<std::size_t>(a * b * c * d);
  };
  inputs.q.resize(size(p.batch, p.query_heads, p.query_len, p.head_dim));
  inputs.k.resize(size(p.batch, p.kv_heads, p.kv_len, p.head_dim));
  inputs.v.resize(size(p.batch, p.kv_heads, p.kv_len, p.value_dim));
  const double scale = effective_scale(p);
  if (!p.varlen.empty() || p.seqused) {
    inputs.lengths = draw_lengths(p);
    for (std::vector<float>* values : {&inputs.q, &inputs.k, &inputs.v})
      std::fill(values->begin(), values->end(), std::numeric_limits<float>::quiet_NaN());
  }
  const auto lengths_of = [&](std::int64_t b) {
    return inputs.lengths.empty() ? SequenceLengths{p.query_len, p.kv_len}
                                  : inputs.lengths[static_cast<std::size_t>(b)];
  };

  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.query_heads; ++h) {
      const auto [query_len, kv_len] = lengths_of(b);
      float* q = inputs.q.data() + (b * p.query_heads + h) * p.query_len * p.head_dim;
      const Random random = head_stream(p.seed, Operand::q, b, h);
      switch (p.input) {
        case InputKind::normal:
        case InputKind::onesign:
        case InputKind::wide:
          draw_normal(random, query_len * p.head_dim, q);
          break;
        case InputKind::loud:
          draw_loud_queries(random, LoudShape(kv_len, p.head_dim, scale), query_len, p.head_dim, q);
          break;
        case InputKind::needle:
          draw_loud_queries(random, needle_shape(kv_len, p.head_dim, scale), query_len, p.head_dim, q);
          break;
        case InputKind::equal:
          std::fill(q, q + query_len * p.head_dim, 0.0f);
          break;
        case InputKind::rising:
        case InputKind::falling:
          draw_ramp_queries(random, query_len, p.head_dim, scale, q);
          break;
        case InputKind::hot:
          draw_scaled(random, query_len * p.head_dim, 10.0f, q);
          break;
      }
    }

  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.kv_heads; ++h) {
      const std::int64_t kv_len = lengths_of(b).kv_len;
      float* k = inputs.k.data() + (b * p.kv_heads + h) * p.kv_len * p.head_dim;
      float* v = inputs.v.data() + (b * p.kv_heads + h) * p.kv_len * p.value_dim;
      const Random of_k = head_stream(p.seed, Operand::k, b, h);
      const Random of_v = head_stream(p.seed, Operand::v, b, h);
      const std::int64_t needle = needle_key(kv_len);
      switch (p.input) {
        case InputKind::normal:
        case InputKind::onesign:
        case InputKind::equal:
          draw_normal(of_k, kv_len * p.head_dim, k);
          break;
        case InputKind::loud:
          draw_loud_keys(of_k, LoudShape(kv_len, p.head_dim, scale), kv_len, p.head_dim, k);
          break;
        case InputKind::wide:
          draw_wide_rows(of_k, kv_len, p.head_dim, -24, 2, k);
          break;
        case InputKind::needle:
          draw_needle_keys(of_k, needle_shape(kv_len, p.head_dim, scale), needle, kv_len, p.head_dim, k);
          break;
        case InputKind::rising:
          draw_ramp_keys(of_k, kv_len, p.head_dim, scale, Ramp::rising, k);
          break;
        case InputKind::falling:
          draw_ramp_keys(of_k, kv_len, p.head_dim, scale, Ramp::falling, k);
          break;
        case InputKind::hot:
          draw_scaled(of_k, kv_len * p.head_dim, 10.0f, k);
          break;
      }
      switch (p.input) {
        case InputKind::onesign:
          draw_uniform(of_v, kv_len * p.value_dim, 0.5f, 1.0f, v);
          break;
        case InputKind::wide:
          draw_wide_rows(of_v, kv_len, p.value_dim, -13, 13, v);
          break;
        case InputKind::needle:
          draw_needle_values(of_v, needle, kv_len, p.value_dim, v);
          break;
        default:
          draw_normal(of_v, kv_len * p.value_dim, v);
          break;
      }
    }
  inputs.options = draw_options(p);
  return inputs;
}

}  // namespace inputs
}  // namespace runmax
