// Every number of the CPU forward kernels.
#pragma once

#include <cstdint>

namespace runmax::cpu {

struct ForwardTile {
  std::int64_t rows;           // query rows of a register tile
  std::int64_t panel;          // keys of a packed panel of K; value channels are padded to the same multiple
  std::int64_t block_q;        // query rows of a work item: keys are read from beyond the second-level cache
  std::int64_t small_block_q;  //   half as often as with the small one, which makes more items of little work
  std::int64_t
      score_rows;  // query rows whose scores exist at one time, so that they stay in the first-level cache
  std::int64_t block_kv;     // keys between two updates of a row's maximum
  std::int64_t value_group;  // channels of V that are packed side by side
  std::int64_t chain;        // keys summed in registers before they join the row's output
  std::int64_t depth;        // head dimensions summed in registers before they join the score
};

// chain 128: a longer run of additions to one register loses up to 2^-24 of the largest term per key when
// that term comes first, which at 512 is more than the lesson gate allows (NOTES.md).
inline constexpr ForwardTile forward_tile{.rows = 6,
                                          .panel = 16,
                                          .block_q = 192,
                                          .small_block_q = 96,
                                          .score_rows = 48,
                                          .block_kv = 512,
                                          .value_group = 64,
                                          .chain = 128,
                                          .depth = 128};

static_assert(forward_tile.block_q % forward_tile.score_rows == 0);
static_assert(forward_tile.small_block_q % forward_tile.score_rows == 0);
static_assert(forward_tile.score_rows % forward_tile.rows == 0);
static_assert(forward_tile.block_kv % forward_tile.chain == 0);
static_assert(forward_tile.chain % forward_tile.panel == 0);
static_assert(forward_tile.value_group % forward_tile.panel == 0);

// Floats from one row of scores to the next. A stride of 2^k bytes would send all rows to the same cache
// sets.
inline constexpr std::int64_t score_stride = forward_tile.block_kv + forward_tile.panel;

// When the keys are split without being asked to: until there are `items` pieces of work, but never into
// parts of fewer than `keys`. Numbers of the problem only, so that the result does not depend on the machine.
struct SplitPolicy {
  std::int64_t items;
  std::int64_t keys;
};
inline constexpr SplitPolicy split_policy{.items = 128, .keys = 1024};

// Work items of a call from which on they take block_q rows.
inline constexpr std::int64_t enough_items = 64;

// Rows of K and V asked for ahead of their use where they come from memory.
inline constexpr std::int64_t prefetch_rows = 48;

// K and V of the next head are asked for while this one is computed if they are no more floats than this.
inline constexpr std::int64_t most_floats_ahead = 1 << 17;

// Workspace regions begin at multiples of this.
inline constexpr std::int64_t region_bytes = 64;

}  // namespace runmax::cpu

// Register tiles live in registers only if their loops are unrolled; g++ at -O2 leaves them in memory (35
// instead of 112 GFLOP/s).
#if defined(__clang__)
#define RUNMAX_UNROLL _Pragma("unroll")
#else
#define RUNMAX_UNROLL _Pragma("GCC unroll 16")
#endif
