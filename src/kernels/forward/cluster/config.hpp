// Numbers of the cluster forward kernel, and its shared memory.
#pragma once

#include <cstdint>

namespace runmax::cluster {

// A cluster of blocks shares one tile of queries; each block takes its own run of key tiles. In a block a
// warp owns 2 query rows, and a lane one of the 32 keys of the current tile, then every 32nd channel of the
// output.
struct ForwardTile {
  int blocks = 8;  // of a cluster: the portable limit
  int warps = 16;
  int rows_per_warp = 2;
  int block_kv = 32;

  constexpr int threads() const { return 32 * warps; }
  constexpr int block_q() const { return warps * rows_per_warp; }
};
inline constexpr ForwardTile tile;

// K rows are padded by one float4: lanes that read float4s of neighbouring rows then cover all 32 banks.
constexpr int key_stride(int dim) { return dim + 4; }

template <int dim>
struct Shared {
  float q_smem[tile.block_q() * dim];
  float k_smem[tile.block_kv * key_stride(dim)];
  float v_smem[tile.block_kv * dim];
  float p_smem[tile.warps][tile.block_kv * tile.rows_per_warp];  // (key, row)
  // What the blocks of the cluster read of each other after the last tile.
  float out[tile.block_q() * dim];
  float max[tile.block_q()], sum[tile.block_q()];
};
static_assert(sizeof(Shared<128>) <= 227 * 1024);

// Where it is meant to be used: heads short enough for one wave of clusters. A block fills a multiprocessor,
// and a cluster must fit into one group of them: an H200 of 132 holds 15 clusters of 8 at a time (measured).
inline constexpr std::int64_t longest_kv = 1024;
constexpr std::int64_t clusters_at_a_time(std::int64_t multiprocessors) {
  return multiprocessors / tile.blocks - 1;
}

}  // namespace runmax::cluster
