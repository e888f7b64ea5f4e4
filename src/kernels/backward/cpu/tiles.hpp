// The SIMD inner loops of the CPU backward kernel, as a table of functions for one instruction set.
#pragma once

#include <cstdint>

#include "kernels/forward/cpu/tiles.hpp"

namespace runmax::cpu {

// Rows of a matrix as pack_values leaves them: [group of 64 channels][rows][channels of the group].
struct PackedRows {
  const float* data = nullptr;
  std::int64_t rows = 0;        // of the whole pack: a group's first channel to the next group's
  std::int64_t padded_dim = 0;  // channels, a multiple of panel
  bool finite = true;           // no infinity and no NaN in it
};

// A tile of query rows and keys: P and dS of every pair. The buffers have pair_stride floats a row and whole
// register tiles of rows; what lies beyond `rows` and `keys` holds numbers that nobody asks for.
struct PairTile {
  const float* q = nullptr;     // packed by pack_queries, times a power of two
  const float* dout = nullptr;  // packed by pack_queries
  const float* k = nullptr;     // packed by pack_keys
  const float* v = nullptr;     // packed by pack_keys
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t rows = 0;
  std::int64_t keys = 0;
  const TileKeys* visible = nullptr;  // (rows) keys that the row sees; null: all see all
  const float* lse = nullptr;         // (rows, rounded up to a register tile) in the units of q k
  const float* delta = nullptr;       // (likewise) sum_c dO_ic O_ic
  float exponent_scale = 1;           // P = exp2(exponent_scale * (q k - lse))
  float* weights = nullptr;           // P, written
  float* score_gradients = nullptr;   // dS without the softmax scale, written
};

// One row of a tile between P and dS, where options stand between them.
struct GradientRow {
  TileKeys keys;                     // what lies beside them becomes 0
  float delta = 0;                   // sum_c dO_ic O_ic
  const float* weights = nullptr;    // P; 0 for a hidden key
  float* score_gradients = nullptr;  // in: dO V^T; out: dS, with respect to the score before the softcap
  float* dropped = nullptr;  // in: P with 0 where dropout drops; out: that times kept_factor; null: none
  float kept_factor = 1;
  const float* cap_slope = nullptr;  // derivative of the softcap; null: none
  float* final_gradients = nullptr;  // written: dS with respect to the score after bias; null: not wanted
};

// out (rows, padded_dim) += dS K: sums over the keys that each row sees.
struct QueryTile {
  const float* score_gradients = nullptr;
  PackedRows keys;                    // K
  std::int64_t first = 0;             // the tile's first key in the pack
  std::int64_t rows = 0, count = 0;   // query rows, keys
  const TileKeys* visible = nullptr;  // (rows); null: all
  const float* hidden_by = nullptr;   // P, where a mask or bias hides keys: those with P = 0; null: none does
  float* out = nullptr;               // whole register tiles of rows
};

// out (keys, padded_dim) += W^T X: sums over the query rows that see each key.
struct KeyTile {
  const float* pairs = nullptr;       // P for dV, dS for dK
  PackedRows queries;                 // dO for dV, Q for dK
  std::int64_t rows = 0, count = 0;   // query rows, keys
  const TileKeys* visible = nullptr;  // (rows); null: all
  const float* hidden_by = nullptr;   // as above
  float* out = nullptr;               // whole register tiles of keys
};

struct BackwardFunctions {
  const char* target;
  void (*pairs)(const PairTile&);
  // Q K^T in the place of P and dO V^T in that of dS, for options to work on.
  void (*products)(const PairTile&);
  // Scores -> P, for `keys` of a row of block_kv keys; 0 beside them.
  void (*weigh_row)(float* row, TileKeys keys, float lse, float exponent_scale);
  void (*gradient_row)(const GradientRow&);
  void (*add_to_queries)(const QueryTile&);
  void (*add_to_keys)(const KeyTile&);
  // delta[r] = sum over channels of a and b, in double.
  void (*row_dots)(const StridedRows& a, const StridedRows& b, std::int64_t rows, std::int64_t channels,
                   float* delta);
  bool (*all_finite)(const float* data, std::int64_t count);
};

// The functions of the instruction set that tile_functions() uses.
const BackwardFunctions& backward_functions();

}  // namespace runmax::cpu
