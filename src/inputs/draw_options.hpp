// How the tools draw masks, biases, slopes and sinks (C++17).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "../../include/runmax/problem.hpp"
#include "random.hpp"

namespace runmax {
namespace inputs {

// Packed; what the problem does not have is empty. A size of 1 is broadcast.
struct HostOptions {
  std::array<std::int64_t, 4> mask_shape{0, 0, 0, 0},
      bias_shape{0, 0, 0, 0};  // (batch, heads, queries, keys)
  std::vector<std::uint8_t> mask;
  std::vector<float> bias;
  std::vector<float> alibi_slopes, sink;  // one for each query head
  std::uint64_t dropout_seed = 0, dropout_offset = 0;
};

// Beyond this many elements a mask or a bias is the same for all queries.
constexpr double largest_option = 0x1p25;

inline Random option_stream(std::uint64_t seed, std::uint64_t option, std::int64_t place) {
  return Random(seed ^ 0x6f7074696f6e73ull, (static_cast<std::uint64_t>(place) << 3) + option);
}

// A batch element's keys end early, at random in their second half, as padding does. Before that, one row in
// sixteen sees nothing, and each other row its own share of the keys: all, nine tenths, half or a tenth.
inline void draw_mask(const Problem& p, HostOptions& options) {
  const double size =
      static_cast<double>(p.batch) * static_cast<double>(p.query_len) * static_cast<double>(p.kv_len);
  options.mask_shape = {p.batch, 1, size <= largest_option ? p.query_len : 1, p.kv_len};
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t end = p.kv_len - option_stream(p.seed, 0, b).below(p.kv_len / 2 + 1);
    for (std::int64_t i = 0; i < options.mask_shape[2]; ++i) {
      Random random = option_stream(p.seed, 1, b * p.query_len + i);
      const bool empty = options.mask_shape[2] > 1 && random.below(16) == 0;
      const std::int64_t tenths[] = {10, 9, 5, 1};
      const std::int64_t share = empty ? 0 : tenths[random.below(4)];
      for (std::int64_t j = 0; j < p.kv_len; ++j)
        options.mask.push_back(random.below(10) < share && j < end ? 1 : 0);
    }
  }
}

// Standard normal; one in sixteen is -inf.
inline void draw_bias(const Problem& p, HostOptions& options) {
  const double size =
      static_cast<double>(p.query_heads) * static_cast<double>(p.query_len) * static_cast<double>(p.kv_len);
  options.bias_shape = {1, p.query_heads, size <= largest_option ? p.query_len : 1, p.kv_len};
  for (std::int64_t h = 0; h < p.query_heads; ++h) {
    Random random = option_stream(p.seed, 2, h);
    for (std::int64_t at = 0; at < options.bias_shape[2] * p.kv_len; ++at) {
      const float value = random.normal();
      options.bias.push_back(random.below(16) == 0 ? -std::numeric_limits<float>::infinity() : value);
    }
  }
}

// The same problem text gives the same bits on every platform.
inline HostOptions draw_options(const Problem& p) {
  HostOptions options;
  if (p.mask) draw_mask(p, options);
  if (p.bias) draw_bias(p, options);
  for (std::int64_t h = 0; h < p.query_heads; ++h) {
    // The slopes of the paper, 2^(-8 (h + 1) / heads), rounded to quarter octaves for whole numbers alone to
    // decide.
    const std::int64_t quarters = 32 * (h + 1) / p.query_heads;
    const float quarter[] = {1.0f, 0.8409f, 0.7071f, 0.5946f};
    if (p.alibi)
      options.alibi_slopes.push_back(std::ldexp(quarter[quarters % 4], static_cast<int>(-(quarters / 4))));
    // About as heavy as a quarter to four times all keys of standard normal scores.
    if (p.sink) {
      const double keys = static_cast<double>(p.kv_len < 1 ? 1 : p.kv_len);
      options.sink.push_back(static_cast<float>(std::log(keys)) +
                             option_stream(p.seed, 3, h).uniform(-1.4f, 1.4f));
    }
  }
  if (p.dropout != 0) {
    Random random = option_stream(p.seed, 4, 0);
    options.dropout_seed = random.bits();
    options.dropout_offset = random.bits();
  }
  return options;
}

}  // namespace inputs
}  // namespace runmax
