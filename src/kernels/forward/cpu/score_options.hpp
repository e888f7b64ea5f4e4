// What options do to a tile of scores between the first product and the weights, and to its weights after it:
// softcap, bias, ALiBi and mask of a row, and dropout.
#pragma once

#include <cstdint>

#include "kernels/forward/cpu/config.hpp"
#include "kernels/forward/cpu/tiles.hpp"
#include "runmax/dropout.hpp"

namespace runmax::cpu {

// Which keys of a tile a row sees, one bit a key from the lowest of the first word up.
inline constexpr std::int64_t visible_words = forward_tile.block_kv / 64;

// Of a whole problem: from the units of the first product to the score that is exponentiated.
struct ScoreUnits {
  float factor = 1;   // score = factor * raw, without a softcap
  float softcap = 0;  // score = softcap * tanh(cap_factor * raw); 0: none
  float cap_factor = 0;
};

// One row and the keys of one tile. Keys count from the tile's first; what lies outside `keys` is not read.
struct OptionRow {
  TileKeys keys;
  const float* bias = nullptr;         // added; -inf hides the key; null: none
  const std::uint8_t* mask = nullptr;  // 0 hides the key; null: none
  float slope = 0;                     // ALiBi: - slope * |diagonal - key|
  std::int64_t diagonal = 0;           // the key at distance 0
  float* scores = nullptr;             // raw scores, replaced by final ones, -inf for a hidden key
  float* lane_max = nullptr;           // (panel) written: the largest visible score of each lane
  std::uint64_t* visible = nullptr;    // (visible_words) written; null: not wanted
  float* cap_slope = nullptr;          // written: d(softcap * tanh) / d(score) of each key; null: not wanted
};

struct OptionFunctions {
  const char* target;  // "AVX3", "AVX2", ...

  // A hidden key is replaced, not shifted: whatever its score was, NaN included.
  void (*transform)(const ScoreUnits&, const OptionRow&);
  // Sets to 0 the weights that dropout drops; `first_key`, a multiple of 4, is the sequence's key that
  // `weights` begins with.
  void (*drop)(float* weights, TileKeys keys, PhiloxKey key, std::uint32_t threshold, std::int64_t query,
               std::int64_t first_key);
  // out[i] = tanh(in[i]), slope[i] = 1 - tanh(in[i])^2 as `transform` computes them.
  void (*tanh)(const float* in, float* out, float* slope, std::int64_t count);
};

// The functions of the best instruction set that this processor and Highway's test override allow.
const OptionFunctions& option_functions();

}  // namespace runmax::cpu
