// The SIMD inner loops of the CPU forward kernels, as a table of functions for one instruction set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/forward/cpu/ahead.hpp"
#include "kernels/forward/cpu/elements.hpp"

namespace runmax::cpu {

// The keys of a tile that a row sees, relative to the tile's first key; nothing outside is used.
struct TileKeys {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  friend bool operator==(const TileKeys&, const TileKeys&) = default;
};

// Rows of a matrix with any strides, in elements.
struct StridedRows {
  const float* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t channel_stride = 1;
};

// V packed as [group of 64 channels][keys][channels of the group]: rows of a group lie side by side, so that
// a run of keys fills all sets of the first-level cache. The last group may be narrower.
struct PackedValues {
  float* data = nullptr;
  std::int64_t keys = 0;
};

// The rows of V that a tile reads, from `first_key` on: packed, or where the caller has them.
struct ValueRows {
  const float* data = nullptr;
  std::int64_t first_key = 0;
  std::int64_t row_stride = 0;    // in place; 0: packed, the width of the group
  std::int64_t group_stride = 0;  // from a group's first channel to the next group's
  bool from_memory = false;       // read once, where they lie: ask for later rows ahead of time
};

// scores = Q K^T for `rows` rows and the keys of one tile.
struct ScoreTile {
  const float* q = nullptr;  // (rows, head_dim), times a power of two
  const float* k = nullptr;  // packed by pack_keys; the tile's first panel
  std::int64_t head_dim = 0;
  std::int64_t rows = 0;
  const TileKeys* keys = nullptr;  // (rows)
  float* scores = nullptr;         // (rows, scores_stride); panels that no row of a register tile sees are
  std::int64_t scores_stride = 0;  //   not written
  float* lane_max = nullptr;       // (rows, panel): largest score of each lane, over all written panels
  Ahead* ahead = nullptr;          // asked after each register tile
};

// The same for a few rows and keys that are read once: K lies as rows with neighbouring channels.
struct FewRowsTile {
  const float* q = nullptr;  // (rows, head_dim), times a power of two
  ElementRows k;             // the keys of `range`, channels side by side
  TileKeys range;            // of the tile: scores of others are not written
  std::int64_t head_dim = 0;
  std::int64_t rows = 0;
  const TileKeys* keys = nullptr;  // (rows)
  float* scores = nullptr;         // (rows, scores_stride): written for the keys that some row sees
  std::int64_t scores_stride = 0;
};

// What a row carries from tile to tile. `max` starts at the lowest finite number: then score - max is never
// (-inf) - (-inf), and no step needs a special first tile.
struct RowStates {
  float* max = nullptr;  // (rows) largest score, in units in which exp2(exponent_scale * score) is the weight
  float* sum = nullptr;  // (rows) sum of the weights against max
  float* rescale = nullptr;  // (rows) written: what the sum and the output before this tile are multiplied by
};

// scores -> weights in place, for the visible keys; max, sum and rescale follow.
struct WeightTile {
  float* scores = nullptr;
  std::int64_t scores_stride = 0;
  std::int64_t rows = 0;
  const TileKeys* keys = nullptr;
  const float* lane_max = nullptr;  // of ScoreTile; null: the scores are read for the maximum
  float exponent_scale = 1;         // weight = exp2(exponent_scale * (score - max))
  RowStates states;
};

// out = rescale * out + weights * V for the keys of one tile.
struct ValueTile {
  const float* weights = nullptr;
  std::int64_t weights_stride = 0;
  ValueRows v;
  std::int64_t padded_value_dim = 0;  // a multiple of panel
  std::int64_t rows = 0;
  const TileKeys* keys = nullptr;
  const float* rescale = nullptr;  // (rows); null: 1
  float* out = nullptr;            // (rows, padded_value_dim)
  // (rows, words of score_options.hpp): for masked_values alone, which keys within `keys` each row sees.
  const std::uint64_t* visible = nullptr;
};

struct TileFunctions {
  const char* target;  // "AVX3", "AVX2", ...
  std::int64_t lanes;

  // (keys, head_dim) -> [panel][head_dim][16]; the last panel is filled up with zeros.
  void (*pack_keys)(const StridedRows& source, std::int64_t keys, std::int64_t head_dim, float* packed);
  // Rows of V, to keys [first_key, first_key + keys) of `packed`; channels are filled up with zeros to a
  // panel.
  void (*pack_values)(const StridedRows& source, std::int64_t keys, std::int64_t value_dim,
                      std::int64_t first_key, const PackedValues& packed);
  // Six rows with neighbouring channels -> [head_dim][6], times factor.
  void (*pack_query_rows)(const StridedRows& source, std::int64_t head_dim, float factor, float* packed);
  // to (rows, channels) = rows with neighbouring channels, times factor.
  void (*scale_rows)(const StridedRows& source, std::int64_t rows, std::int64_t channels, float factor,
                     float* to);
  void (*scores)(const ScoreTile&);
  void (*few_rows_scores)(const FewRowsTile&);
  void (*weights)(const WeightTile&);
  // The largest of `count` scores, NaN left out; the lowest finite number if there is none.
  float (*largest)(const float* scores, std::int64_t count);
  void (*values)(const ValueTile&);
  // The same where rows do not see all of their keys; those they do not see have weight 0.
  void (*masked_values)(const ValueTile&);
  // to[i] = out[i] / sum, and 0 if sum is 0; `to` may be `out`.
  void (*normalize)(const float* out, std::int64_t count, float sum, float* to);
  // out[i] = exp2(scale * in[i]) as `weights` computes it: in[i] <= 0 < scale.
  void (*exp2)(const float* in, float scale, float* out, std::int64_t count);
};

// Floats that pack_queries writes for `rows` rows.
std::int64_t packed_query_floats(std::int64_t rows, std::int64_t head_dim);

// Rows [first, first + rows) of a register-tile-major buffer: [row / 6][head_dim][row % 6], each element
// times `factor`, a signed power of two or 0. A product too small or too large for a float is rounded once.
void pack_queries(const StridedRows& source, std::int64_t first, std::int64_t rows, std::int64_t head_dim,
                  double factor, float* packed);

// to (rows, channels) = rows, each element times `factor`, as in pack_queries.
void scale_rows(const StridedRows& source, std::int64_t rows, std::int64_t channels, double factor,
                float* to);

// The functions of the best instruction set that this processor and Highway's test override allow.
const TileFunctions& tile_functions();

// Instruction sets compiled in that this processor supports, best first, as Highway's target bits.
std::vector<std::int64_t> tile_targets();

// For tests: only this instruction set from now on, for the whole process; 0 lifts it.
void force_tile_target(std::int64_t target);

}  // namespace runmax::cpu
