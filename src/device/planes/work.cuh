// Which rows and which key tiles a work item is.
#pragma once

#include <cstdint>

namespace runmax::planes {

// One block of query rows against one run of key tiles.
struct WorkItem {
  int b, h, split, first_row, tile_begin, tile_end;
};

// Heads vary slowest, so that blocks which run at the same time read the same keys; the query blocks of a
// head come last block first: under a causal mask those are the longest.
template <int block_q, int block_kv, class Arguments>
__device__ WorkItem work_item(const Arguments& args, std::uint32_t index) {
  WorkItem work;
  const auto divide = [&](std::int64_t by) {
    const auto divisor = static_cast<std::uint32_t>(by);
    const std::uint32_t quotient = index / divisor;
    const auto rest = static_cast<int>(index - quotient * divisor);
    index = quotient;
    return rest;
  };
  work.split = divide(args.splits);
  work.first_row = (static_cast<int>(args.query_tiles) - 1 - divide(args.query_tiles)) * block_q;
  work.h = divide(args.query_heads);
  work.b = static_cast<int>(index);
  const int last_row = min(work.first_row + block_q, args.query_len) - 1;
  const int begin = args.keys.first(work.first_row) / block_kv;
  const int end = (args.keys.last(last_row) + block_kv - 1) / block_kv;
  const std::int64_t tiles = max(end - begin, 0);
  work.tile_begin = begin + static_cast<int>(tiles * work.split / args.splits);
  work.tile_end = begin + static_cast<int>(tiles * (work.split + 1) / args.splits);
  return work;
}

}  // namespace runmax::planes
