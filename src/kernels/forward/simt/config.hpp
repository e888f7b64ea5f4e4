// Numbers of the simt forward kernel, and the shared memory that they need.
#pragma once

#include <cstdint>

#include "runmax/online_softmax.hpp"
#include "runmax/problem.hpp"

namespace runmax::simt {

// 256 threads in a 16 x 16 grid; each owns 4 queries x 4 keys of the scores and 4 queries x value_chunk/16
// outputs.
struct ForwardTile {
  int block_q = 64;
  int block_kv = 64;
  int dim_chunk = 32;  // channels of Q and K staged at a time
  int threads = 256;
};
inline constexpr ForwardTile tile;

// P is stored key by key with 4 floats of padding: 16 lanes that write float4s of neighbouring keys then
// cover all 32 banks.
inline constexpr int weights_stride = tile.block_q + 4;

// Output channels of one block; larger value dimensions take several blocks, each with the scores of its own.
inline constexpr int value_chunk_narrow = 64;
inline constexpr int value_chunk_wide = 128;

// Blocks whose registers a multiprocessor holds at least: two hide each other's barriers; a wide chunk has
// too many outputs for it.
constexpr int least_blocks(int value_chunk) { return value_chunk == value_chunk_wide ? 1 : 2; }

// Whether Q stays in shared memory for the whole row block or is staged again with every chunk of K.
enum class QueryStaging { resident, chunked };

// The two choices that change shared memory and registers.
struct ForwardConfig {
  QueryStaging staging = QueryStaging::chunked;
  int value_chunk = value_chunk_narrow;
};

// The best config that fits a block's shared-memory limit in bytes.
ForwardConfig forward_config(const Problem& problem, std::int64_t shared_bytes_per_block);

// Whether the problem asks for anything beyond FP32, causality and windows.
bool needs_options(const Problem& problem);

// The workspace: where the sequences of a packed batch lie, then partial results of the splits.
struct WorkspaceParts {
  std::int64_t range_bytes = 0;
  std::int64_t partial_bytes = 0;
};
WorkspaceParts workspace_parts(const Problem& problem, std::int64_t splits);

// Sequences of a packed batch whose lengths one launch hands to the device.
inline constexpr int ranges_a_launch = 120;

// Channels staged in all; a head_dim of 0 stages one chunk of zeros, so that V is staged with it.
RUNMAX_HOST_DEVICE constexpr std::int64_t padded_dim(std::int64_t head_dim) {
  return head_dim == 0 ? tile.dim_chunk : (head_dim + tile.dim_chunk - 1) / tile.dim_chunk * tile.dim_chunk;
}

// Bytes of dynamic shared memory: Q, one chunk of K, P, and V.
constexpr std::int64_t shared_bytes(QueryStaging staging, std::int64_t head_dim, int value_chunk) {
  const std::int64_t q = staging == QueryStaging::resident ? padded_dim(head_dim) : tile.dim_chunk;
  return 4 * (q * tile.block_q + std::int64_t{tile.dim_chunk} * tile.block_kv +
              std::int64_t{tile.block_kv} * weights_stride + std::int64_t{tile.block_kv} * value_chunk);
}

static_assert(shared_bytes(QueryStaging::chunked, 4096, value_chunk_narrow) <= 64 * 1024, "must fit a T4");

}  // namespace runmax::simt
