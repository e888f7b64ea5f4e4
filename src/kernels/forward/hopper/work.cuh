// Which rows and which key tiles a block works on, round by round.
#pragma once

#include <cstdint>

#include "kernels/forward/hopper/arguments.cuh"

namespace runmax::hopper {

// One block of query rows against one run of key tiles.
struct WorkItem {
  int b, h, split, first_row, tile_begin, tile_end;
};

// The index that this block works on in its n-th round. Rounds run over the work items forwards and backwards
// in turn: under a causal mask a block that had a long item in one round gets a short one in the next.
__device__ inline std::uint32_t work_index(std::uint32_t round) {
  return round * gridDim.x + (round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
}

// Heads vary slowest, so that blocks which run at the same time read the same keys; the query blocks of a
// head come last block first: under a causal mask those are the longest.
template <ForwardTile config>
__device__ WorkItem work_item(const ForwardArguments& args, std::uint32_t index) {
  WorkItem work;
  const auto divide = [&](std::int64_t by) {
    const auto divisor = static_cast<std::uint32_t>(by);
    const std::uint32_t quotient = index / divisor;
    const auto rest = static_cast<int>(index - quotient * divisor);
    index = quotient;
    return rest;
  };
  work.split = divide(args.splits);
  work.first_row = (static_cast<int>(args.query_tiles) - 1 - divide(args.query_tiles)) * config.block_q();
  work.h = divide(args.query_heads);
  work.b = static_cast<int>(index);
  const int last_row = min(work.first_row + config.block_q(), args.query_len) - 1;
  const int begin = args.keys.first(work.first_row) / block_kv;
  const int end = (args.keys.last(last_row) + block_kv - 1) / block_kv;
  const auto tiles =
      static_cast<std::uint32_t>(max(end - begin, 0));  // below 2^22, and splits are at most 32
  const auto splits = static_cast<std::uint32_t>(args.splits), split = static_cast<std::uint32_t>(work.split);
  work.tile_begin = begin + static_cast<int>(tiles * split / splits);
  work.tile_end = begin + static_cast<int>(tiles * (split + 1) / splits);
  return work;
}

}  // namespace runmax::hopper
