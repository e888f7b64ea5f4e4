// Numbers of the lesson's naive path: three kernels around two stored n x n matrices.
#pragma once

#include <cstddef>
#include <cstdint>

namespace runmax {
namespace lesson {

struct NaiveConfig {
  static constexpr int head_dim = 64;
  static constexpr int tile = 16;               // both products: 16 x 16 outputs a block, one a thread
  static constexpr int threads = tile * tile;   // the softmax uses as many for one row
  static constexpr int key_padding = 1;         // floats; the transposed store walks down a column
  static constexpr int max_len = 65535 * tile;  // blocks in a grid's y dimension
  static constexpr int launches = 3;
  static constexpr int scores_shared_floats = tile * tile + tile * (tile + key_padding);
  static constexpr int softmax_shared_floats = threads / 32;
  static constexpr int weighted_sum_shared_floats = 2 * tile * tile;
};
static_assert(NaiveConfig::head_dim % NaiveConfig::tile == 0, "channels are taken a tile at a time");

// Bytes of one of the two square buffers, scores or weights.
constexpr std::size_t naive_matrix_bytes(std::int64_t n) {
  return sizeof(float) * static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
}

}  // namespace lesson
}  // namespace runmax
