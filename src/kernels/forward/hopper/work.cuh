// Which rows and which key tiles a block works on, round by round.
#pragma once

#include <cstdint>

#include "device/planes/work.cuh"
#include "kernels/forward/hopper/arguments.cuh"

namespace runmax::hopper {

// Whether an item is one of the problem's, and not what fills up a head's number.
__device__ inline bool has_rows(const planes::WorkItem& work) { return work.first_row >= 0; }

// The index that this block works on in its n-th round: `items_per_turn` neighbours one after the other, then
// as many where the next turn of all blocks begins.
__device__ inline std::uint32_t work_index(const ForwardArguments& args, std::uint32_t round) {
  const std::uint32_t turn = round / args.items_per_turn;
  return (turn * gridDim.x + blockIdx.x) * args.items_per_turn + round % args.items_per_turn;
}

// Heads vary slowest, so that blocks which run at the same time read the same keys. The items of a head go
// from the last query block, the longest under a causal mask, to the first; in turns of two, the longest
// comes beside the shortest, so that all turns are equally long. An odd number is filled up by one that has
// no rows.
template <ForwardTile config>
__device__ planes::WorkItem work_item(const ForwardArguments& args, std::uint32_t index) {
  planes::WorkItem work;
  const auto divide = [&](std::int64_t by) {
    const auto divisor = static_cast<std::uint32_t>(by);
    const std::uint32_t quotient = index / divisor, rest = index - quotient * divisor;
    index = quotient;
    return rest;
  };
  std::uint32_t item = divide(args.items_per_head);
  if (args.items_per_turn == 2) item = item % 2 == 0 ? item / 2 : args.items_per_head - 1 - item / 2;
  const auto splits = static_cast<std::uint32_t>(args.splits);
  const std::uint32_t split = item % splits;
  work.split = static_cast<int>(split);
  work.first_row =
      (static_cast<int>(args.query_tiles) - 1 - static_cast<int>(item / splits)) * config.block_q();
  work.h = static_cast<int>(divide(args.query_heads));
  work.b = static_cast<int>(index);
  const int last_row = min(work.first_row + config.block_q(), args.query_len) - 1;
  const int begin = args.keys.first(work.first_row) / block_kv;
  const int end = (args.keys.last(last_row) + block_kv - 1) / block_kv;
  const auto tiles =
      static_cast<std::uint32_t>(max(end - begin, 0));  // below 2^22, and splits are at most 32
  work.tile_begin = begin + static_cast<int>(tiles * split / splits);
  work.tile_end = begin + static_cast<int>(tiles * (split + 1) / splits);
  return work;
}

}  // namespace runmax::hopper
