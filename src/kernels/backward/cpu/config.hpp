// Every number of the CPU backward kernel.
#pragma once

#include <cstdint>

#include "kernels/forward/cpu/config.hpp"

namespace runmax::cpu {

struct BackwardTile {
  std::int64_t rows;      // output rows of a register tile, query rows or keys
  std::int64_t block_q;   // query rows of a tile: also the terms of a sum over queries held in registers
  std::int64_t block_kv;  // keys of a tile
  std::int64_t chain;     // keys summed in registers before they join a row's dQ
  std::int64_t owned;     // keys whose dK and dV one work item holds
  std::int64_t panel;     // keys of a packed panel; channels are padded to the same multiple
  std::int64_t group;     // channels of rows that are packed side by side
  std::int64_t depth;     // channels summed in registers before they join a score
};

// block_kv 192 is the least common multiple of the 6 keys of a register tile of dK and the 64 keys of a
// register tile of scores: no tile is left over on either side.
inline constexpr BackwardTile backward_tile{.rows = forward_tile.rows,
                                            .block_q = 96,
                                            .block_kv = 192,
                                            .chain = 96,
                                            .owned = 384,
                                            .panel = forward_tile.panel,
                                            .group = forward_tile.value_group,
                                            .depth = 128};

static_assert(backward_tile.block_q % backward_tile.rows == 0);
static_assert(backward_tile.block_kv % backward_tile.rows == 0);
static_assert(backward_tile.block_kv % backward_tile.panel == 0);
static_assert(backward_tile.block_kv % backward_tile.chain == 0);
static_assert(backward_tile.owned % backward_tile.block_kv == 0);
// No sum runs longer in registers than forward's (src/kernels/forward/cpu/NOTES.md says why).
static_assert(backward_tile.block_q <= forward_tile.chain && backward_tile.chain <= forward_tile.chain);

// Floats from one query row of weights to the next: an odd number of cache lines, so that a column of
// weights meets all sets of the first-level cache.
inline constexpr std::int64_t pair_stride = backward_tile.block_kv + backward_tile.panel;
static_assert(pair_stride / 16 % 2 == 1 && pair_stride % 16 == 0);

}  // namespace runmax::cpu
