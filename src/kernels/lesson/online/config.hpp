// Numbers of the lesson's online kernel.
#pragma once

#include "../bank_conflicts.hpp"

namespace runmax {
namespace lesson {

struct OnlineConfig {
  static constexpr int head_dim = 64;
  static constexpr int rows_per_block = 64;
  static constexpr int warps = 8;
  static constexpr int threads = warps * warp_size;
  static constexpr int min_blocks = 4;  // caps a thread at 64 registers, which the state and one tile need
  static constexpr int rows_per_warp = rows_per_block / warps;
  static constexpr int key_tile = warp_size;                  // a lane owns one key of the tile
  static constexpr int dims_per_lane = head_dim / warp_size;  // and these output dimensions
  static constexpr int key_padding = 1;                       // floats; see the static_asserts
  static constexpr int value_padding = 0;
  static constexpr int key_row_floats = head_dim + key_padding;
  static constexpr int value_row_floats = head_dim + value_padding;
  static constexpr int shared_floats =
      rows_per_block * head_dim + key_tile * key_row_floats + key_tile * value_row_floats;
  static constexpr int state_floats_per_lane = rows_per_warp * (dims_per_lane + 2);  // out, max and sum
};

static_assert(OnlineConfig::shared_floats * sizeof(float) == 32896, "Q 64x64, K 32x65 and V 32x64 floats");
static_assert(OnlineConfig::state_floats_per_lane == 32, "what replaces a row of scores");
// Lane j reads channel c of key j, so lanes are a row of the key tile apart; of a value row, neighbours.
static_assert(bank_conflict_ways(OnlineConfig::key_row_floats) == 1, "padded, every lane has its own bank");
static_assert(bank_conflict_ways(OnlineConfig::head_dim) == 32, "unpadded, all lanes share one bank");
static_assert(bank_conflict_ways(1) == 1, "value rows need no padding");

}  // namespace lesson
}  // namespace runmax
