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

// out (rows, padded_dim) += dS K: sums over the keys that each row sees.
struct QueryTile {
  const float* score_gradients = nullptr;
  PackedRows keys;                    // K
  std::int64_t first = 0;             // the tile's first key in the pack
  std::int64_t rows = 0, count = 0;   // query rows, keys
  const TileKeys* visible = nullptr;  // (rows); null: all
  float* out = nullptr;               // whole register tiles of rows
};

// out (keys, padded_dim) += W^T X: sums over the query rows that see each key.
struct KeyTile {
  const float* pairs = nullptr;       // P for dV, dS for dK
  PackedRows queries;                 // dO for dV, Q for dK
  std::int64_t rows = 0, count = 0;   // query rows, keys
  const TileKeys* visible = nullptr;  // (rows); null: all
  float* out = nullptr;               // whole register tiles of keys
};

struct BackwardFunctions {
  const char* target;
  void (*pairs)(const PairTile&);
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
