// The double-precision engine's SIMD loops, as a table of functions for one instruction set.
#pragma once

#include <cstdint>

namespace runmax::cpu {

struct DoubleTile {
  std::int64_t rows;      // query rows of a register tile
  std::int64_t panel;     // keys of a packed panel of K; value channels are padded to a multiple of 8
  std::int64_t block_q;   // query rows of a work item
  std::int64_t block_kv;  // keys between two updates of a row's maximum, summed in registers
};
inline constexpr DoubleTile double_tile{.rows = 6, .panel = 32, .block_q = 48, .block_kv = 128};
static_assert(double_tile.block_kv % double_tile.panel == 0 && double_tile.block_q % double_tile.rows == 0);

// Keys of a block that a row sees, relative to its first key.
struct DoubleKeys {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

// A register tile of rows against one block of keys.
struct DoubleBlock {
  std::int64_t rows = 0;  // 1 to double_tile.rows
  std::int64_t keys = 0;  // 1 to block_kv
  std::int64_t head_dim = 0;
  std::int64_t value_width = 0;         // padded to a multiple of 8
  const double* q = nullptr;            // [head_dim][6]
  const double* k = nullptr;            // [panel of 32][head_dim][32], the last panel filled up with zeros
  const double* v = nullptr;            // (keys, value_width)
  const DoubleKeys* visible = nullptr;  // (rows)
  double exponent_scale = 1;            // weight = exp2(exponent_scale * (score - max))
  double* scores = nullptr;             // (6, block_kv), scratch
  double* max = nullptr;                // (rows), in units of score; the lowest finite number at first
  double* sum = nullptr;                // (rows)
  double* out = nullptr;                // (rows, value_width)
};

struct DoubleFunctions {
  const char* target;
  // Adds a block of keys to the states of its rows.
  void (*add_block)(const DoubleBlock&);
  // out[i] = exp2(scale * in[i]) as add_block computes it: in[i] <= 0 < scale.
  void (*exp2)(const double* in, double scale, double* out, std::int64_t count);
};

// Those of the instruction set that tile_functions takes.
const DoubleFunctions& double_functions();

}  // namespace runmax::cpu
