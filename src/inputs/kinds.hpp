// One function per kind of input that the tools draw, for one head (C++17). docs/numerics.md says what each
// is for; loud.hpp has the lesson's own.
#pragma once

#include <cmath>
#include <cstdint>

#include "loud.hpp"
#include "random.hpp"

namespace runmax {
namespace inputs {

// A power of two with a whole exponent in [low, high].
inline float power_of_two(Random& random, int low, int high) {
  return std::ldexp(1.0f, low + static_cast<int>(random.below(high - low + 1)));
}

inline void draw_uniform(Random random, std::int64_t count, float lo, float hi, float* values) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = random.uniform(lo, hi);
}

// Standard normal times `factor`.
inline void draw_scaled(Random random, std::int64_t count, float factor, float* values) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = factor * random.normal();
}

// Normal rows, each times its own power of two in [2^low, 2^high].
inline void draw_wide_rows(Random random, std::int64_t rows, std::int64_t width, int low, int high,
                           float* values) {
  for (std::int64_t j = 0; j < rows; ++j) {
    const float factor = power_of_two(random, low, high);
    for (std::int64_t c = 0; c < width; ++c) *values++ = factor * random.normal();
  }
}

// Where the needle lies; anywhere but at an end if there is room.
inline std::int64_t needle_key(std::int64_t kv_len) { return kv_len * 5 / 8; }

// The needle outweighs all other keys together by about 2^needle_octaves, and its V row is that much smaller
// than theirs, so that it holds nearly all the weight and yet neither side of the output can be left out.
constexpr int needle_octaves = 10;

// Q of the needle: channel 0 common as in the loud kind.
inline LoudShape needle_shape(std::int64_t kv_len, std::int64_t head_dim, double scale) {
  LoudShape shape(kv_len, head_dim, scale);
  shape.loud += static_cast<float>(needle_octaves * 0.6931471805599453 /
                                   ((scale == 0 ? 1.0 : scale) * static_cast<double>(shape.common)));
  return shape;
}

// As draw_loud_keys with the loud key at `needle`.
inline void draw_needle_keys(Random random, const LoudShape& shape, std::int64_t needle, std::int64_t kv_len,
                             std::int64_t head_dim, float* k) {
  const float quiet = shape.key_spread / 16;
  for (std::int64_t j = 0; j < kv_len; ++j)
    for (std::int64_t c = 0; c < head_dim; ++c) {
      const float noise = random.normal();
      if (j == needle)
        *k++ = c == 0 ? shape.loud : quiet * noise;
      else
        *k++ = (c == 0 ? quiet : shape.key_spread) * noise;
    }
}

inline void draw_needle_values(Random random, std::int64_t needle, std::int64_t kv_len,
                               std::int64_t value_dim, float* v) {
  for (std::int64_t j = 0; j < kv_len; ++j)
    for (std::int64_t c = 0; c < value_dim; ++c)
      *v++ = random.normal() * (j == needle ? std::ldexp(1.0f, -needle_octaves) : 1.0f);
}

// Scores that rise with the key index (or fall) by `range` in all, in every row: Q has positive values in
// channel 0, K a ramp there, and all keys share their other channels, which shift a row's scores together.
constexpr double ramp_range = 8.0;

inline void draw_ramp_queries(Random random, std::int64_t query_len, std::int64_t head_dim, double scale,
                              float* q) {
  const double common = std::sqrt(ramp_range / (scale == 0 ? 1.0 : std::abs(scale)));
  for (std::int64_t i = 0; i < query_len; ++i)
    for (std::int64_t c = 0; c < head_dim; ++c)
      *q++ = c == 0 ? static_cast<float>(common) * random.uniform(0.75f, 1.25f) : random.normal();
}

enum class Ramp { rising, falling };

inline void draw_ramp_keys(Random random, std::int64_t kv_len, std::int64_t head_dim, double scale, Ramp ramp,
                           float* k) {
  const double top = std::sqrt(ramp_range / (scale == 0 ? 1.0 : std::abs(scale))) * (scale < 0 ? -1 : 1);
  const double step = kv_len > 1 ? top / static_cast<double>(kv_len - 1) : 0;
  for (std::int64_t c = 1; c < head_dim; ++c) {
    const float shared = random.normal();
    for (std::int64_t j = 0; j < kv_len; ++j) k[j * head_dim + c] = shared;
  }
  if (head_dim == 0) return;
  for (std::int64_t j = 0; j < kv_len; ++j)
    k[j * head_dim] =
        static_cast<float>(step * static_cast<double>(ramp == Ramp::rising ? j : kv_len - 1 - j));
}

}  // namespace inputs
}  // namespace runmax
