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

// Scores of the keys of a block that one row sees.
struct DoubleRow {
  double* scores = nullptr;  // (block_kv); weights afterwards, 0 beside `keys` up to whole vectors
  DoubleKeys keys;
  double exponent_scale = 1;  // weight = exp2(exponent_scale * (score - max))
  double* max = nullptr;      // in units of score; the lowest finite number at first
  double* sum = nullptr;
};

// Sums are kept in register tiles of 6 rows and block_kv columns; rows of weights lie block_kv apart.
struct DoubleFunctions {
  const char* target;
  // out (6, block_kv) = A B^T: `a` [depth][6], `b` [panel of 32][depth][32], the last panel filled up.
  void (*products)(const double* a, const double* b, std::int64_t depth, std::int64_t columns, double* out);
  // Takes a row's keys into its maximum and sum; returns the factor of what was summed before.
  double (*weigh)(const DoubleRow&);
  // out (rows, width) += weights (rows, count) * values (count, width), for 1 or 6 rows and a width that is a
  // multiple of 8. A row's additions come in the same order either way.
  void (*add_values)(const double* weights, const double* values, std::int64_t width, std::int64_t count,
                     std::int64_t rows, double* out);
  // out[i] = exp2(scale * in[i]) as weigh computes it: in[i] <= 0 < scale.
  void (*exp2)(const double* in, double scale, double* out, std::int64_t count);
};

// Those of the instruction set that tile_functions takes.
const DoubleFunctions& double_functions();

}  // namespace runmax::cpu
