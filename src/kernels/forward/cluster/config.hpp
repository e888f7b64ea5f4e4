// Numbers of the cluster forward kernel, and its shared memory.
#pragma once

#include <cstdint>

namespace runmax::cluster {

// A cluster of up to 8 blocks shares 64 query rows and cuts the keys; in a block, two warpgroups share the
// rows and cut the block's keys once more.
inline constexpr int block_q = 64;
inline constexpr int groups = 2;
inline constexpr int threads = 128 * groups;
inline constexpr int most_blocks = 8;  // of a cluster: the portable limit

// Keys that a warpgroup takes at a time: few, so that a short head still fills a cluster; 64 for the rest.
constexpr int block_kv(int group_kv) { return groups * group_kv; }

// Q, then K, then V of a key tile, each row split into two fp16 planes.
constexpr int rows(int group_kv) { return block_q + 2 * block_kv(group_kv); }

// A row as far as one block saw it. Its output is in units of 2^(exponent - 30).
struct alignas(16) PartState {
  float max, sum, exponent;
  float suspicious;  // not 0: some row of Q, K or V may not fit the planes
};

// What each warpgroup gives the other when they merge: half of its output columns, and its rows' states.
template <int dim>
struct Exchange {
  float out[groups][dim / 4 * 128];
  PartState state[groups][block_q];
};

// Where the blocks of the cluster put their parts of the rows that this block finishes: (block, row), as many
// rows in all as a query tile has.
template <int dim>
struct Parts {
  float out[block_q][dim];
  PartState state[block_q];
};

template <int dim, int group_kv>
struct Shared {
  static constexpr int plane_bytes = rows(group_kv) * dim * 2;
  // (plane, column block of 64 channels, row, 64 channels), swizzled. After the last tile: an Exchange.
  static constexpr int tile_bytes =
      2 * plane_bytes > int{sizeof(Exchange<dim>)} ? 2 * plane_bytes : int{sizeof(Exchange<dim>)};
  alignas(1024) unsigned char memory[tile_bytes];
  Parts<dim> parts;
  float unit[rows(group_kv)];   // Q and K: row = planes * unit. V: the exponent r with |v| < 2^r
  std::uint64_t parts_arrived;  // barrier
};

// Where it is meant to be used: heads short enough for the blocks to run side by side. A cluster must fit
// into one group of multiprocessors: an H200 of 132 holds 15 clusters of 8 blocks, and twice as many where
// two blocks fit one multiprocessor (measured).
inline constexpr std::int64_t longest_kv = 1024;
constexpr std::int64_t blocks_at_a_time(std::int64_t multiprocessors) { return multiprocessors; }

}  // namespace runmax::cluster
