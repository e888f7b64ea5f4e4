// The lesson's data (C++17): key n - 3 is every row's largest score and holds about half of its weight, at
// every length, so the running maximum still moves in the last tile while no other key vanishes.
//
// Channel 0 is common: every query has the same value c there. An ordinary key scores about N(0, 1/4), so
// that the n ordinary keys of a row weigh about n * exp(1/8) together. The loud key carries
// b / (scale * c) in channel 0 with b = ln(n) + 1/8, hence scores b and weighs as much as all the others.
// docs/numerics.md has the derivation, and the bounds that a test asserts.
#pragma once

#include <cmath>
#include <cstdint>

#include "random.hpp"
#include "stream.hpp"

namespace runmax {
namespace inputs {

// Index of the loud key; lengths below 3 have it at 0.
inline std::int64_t loud_key(std::int64_t kv_len) { return kv_len < 3 ? 0 : kv_len - 3; }

// The numbers that Q and K share.
struct LoudShape {
  float common = 0.0f;      // channel 0 of every query
  float loud = 0.0f;        // channel 0 of the loud key
  float key_spread = 0.0f;  // standard deviation of an ordinary key's other channels

  LoudShape(std::int64_t kv_len, std::int64_t head_dim, double scale) {
    const double width = static_cast<double>(head_dim > 1 ? head_dim - 1 : 1);
    const double safe_scale = scale == 0 ? 1 / std::sqrt(width) : scale;
    const double score_spread = 0.5;
    const double bump =
        std::log(static_cast<double>(kv_len < 2 ? 2 : kv_len)) + score_spread * score_spread / 2;
    common = static_cast<float>(std::sqrt(bump / std::abs(safe_scale)));
    loud = static_cast<float>(bump / (safe_scale * common));
    key_spread = static_cast<float>(score_spread / (std::abs(safe_scale) * std::sqrt(width)));
  }
};

// Packed (query_len, head_dim).
inline void draw_loud_queries(Random random, const LoudShape& shape, std::int64_t query_len,
                              std::int64_t head_dim, float* q) {
  for (std::int64_t i = 0; i < query_len; ++i)
    for (std::int64_t c = 0; c < head_dim; ++c) *q++ = c == 0 ? shape.common : random.normal();
}

// Packed (kv_len, head_dim). The quiet parts (channel 0 of ordinary keys, the other channels of the loud one)
// are small, not zero, so that no product is trivially right.
inline void draw_loud_keys(Random random, const LoudShape& shape, std::int64_t kv_len, std::int64_t head_dim,
                           float* k) {
  const float quiet = shape.key_spread / 16;
  const std::int64_t loud_at = loud_key(kv_len);
  for (std::int64_t j = 0; j < kv_len; ++j)
    for (std::int64_t c = 0; c < head_dim; ++c) {
      const float noise = random.normal();
      if (j == loud_at)
        *k++ = c == 0 ? shape.loud : quiet * noise;
      else
        *k++ = (c == 0 ? quiet : shape.key_spread) * noise;
    }
}

// Standard normal, packed; what q, k or v hold where nothing else is said.
inline void draw_normal(Random random, std::int64_t count, float* values) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = random.normal();
}

// One head of n queries and n keys with d channels and scale 1/sqrt(d); q, k, v packed (n, d).
inline void draw_loud_head(std::uint64_t seed, std::int64_t n, std::int64_t d, float* q, float* k, float* v) {
  const LoudShape shape(n, d, d == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(d)));
  draw_loud_queries(head_stream(seed, Operand::q, 0, 0), shape, n, d, q);
  draw_loud_keys(head_stream(seed, Operand::k, 0, 0), shape, n, d, k);
  draw_normal(head_stream(seed, Operand::v, 0, 0), n * d, v);
}

}  // namespace inputs
}  // namespace runmax
