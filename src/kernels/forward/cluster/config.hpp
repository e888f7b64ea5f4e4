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

// Keys that a warpgroup takes at a time: 16 or 32, so that a short head still fills a cluster; 64 for the
// rest; 96 where a cluster has 6 blocks.
constexpr int block_kv(int group_kv) { return groups * group_kv; }

// What the two warpgroups share out of a tile: its keys, and then they merge what they found; or V's columns,
// and then each finds the weights of all keys itself. The second costs weights and saves the merge.
enum class Cut { keys, columns };
constexpr Cut cut_of(int group_kv) { return group_kv == 16 ? Cut::columns : Cut::keys; }

// Q, then K, then V of a key tile, each row split into two fp16 planes.
constexpr int rows(int group_kv) { return block_q + 2 * block_kv(group_kv); }

// The blocks of a cluster: a power of two; or 6 of the largest tiles, which hold 1024 keys.
template <int group_kv>
struct Blocks {
  static constexpr bool six = group_kv == 96;
  std::uint32_t log2;

  constexpr std::uint32_t count() const { return six ? 6 : 1u << log2; }
  constexpr std::uint32_t quotient(std::uint32_t x) const { return six ? x / 6 : x >> log2; }
  constexpr std::uint32_t remainder(std::uint32_t x) const { return x - quotient(x) * count(); }
  // The most rows that one finishes, which the first blocks do.
  constexpr std::uint32_t share() const { return six ? (block_q + 5) / 6 : std::uint32_t{block_q} >> log2; }
  constexpr std::uint32_t owner(std::uint32_t row) const { return six ? row / share() : row >> (6 - log2); }
  constexpr std::uint32_t share_of(std::uint32_t rank) const {
    return six && rank == 5 ? block_q - 5 * share() : share();
  }
};

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
template <int dim, int group_kv>
struct Parts {
  static constexpr int rows = Blocks<group_kv>::six ? 66 : block_q;
  float out[rows][dim];
  PartState state[rows];
};

template <int dim, int group_kv>
struct Shared {
  static constexpr int plane_bytes = rows(group_kv) * dim * 2;
  // (plane, column block of 64 channels, row, 64 channels), swizzled. After the last tile: an Exchange.
  static constexpr int tile_bytes =
      2 * plane_bytes > int{sizeof(Exchange<dim>)} ? 2 * plane_bytes : int{sizeof(Exchange<dim>)};
  alignas(1024) unsigned char memory[tile_bytes];
  Parts<dim, group_kv> parts;
  float unit[rows(group_kv)];   // Q and K: row = planes * unit. V: the exponent r with |v| < 2^r
  std::uint64_t parts_arrived;  // barrier
};

// Where it is meant to be used: heads short enough for the blocks to run side by side. A cluster must fit
// into one group of multiprocessors: an H200 of 132 holds 15 clusters of 8 blocks, and twice as many where
// two blocks fit one multiprocessor; 17 of 6 and 30 of 4 (measured).
inline constexpr std::int64_t longest_kv = 1024, clusters_of_8 = 15;
constexpr std::int64_t blocks_at_a_time(std::int64_t multiprocessors) { return multiprocessors; }

}  // namespace runmax::cluster
