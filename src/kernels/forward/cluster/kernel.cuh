// FP32-grade attention for short heads in one launch: planes are split in the block, keys over a cluster, and
// the parts merge through distributed shared memory.
#pragma once

#include <cstdint>

#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/cluster.cuh"
#include "kernels/forward/cluster/attend.cuh"
#include "kernels/forward/cluster/finish.cuh"
#include "kernels/forward/cluster/planes.cuh"

namespace runmax::cluster {

// Code that runs once is as slow as it is fetched: loops here stay rolled where registers allow it.
template <int dim, int group_kv>
__global__ void __launch_bounds__(threads, sizeof(Shared<dim, group_kv>) <= 113 * 1024 ? 2 : 1)
    forward_kernel(const __grid_constant__ ForwardArguments args) {
  extern __shared__ __align__(1024) unsigned char raw_shared[];
  auto& shared = *reinterpret_cast<Shared<dim, group_kv>*>(raw_shared);
  const Blocks<group_kv> blocks{args.log2_blocks};
  const std::uint32_t rank = blocks.remainder(blockIdx.x);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&shared.parts_arrived, 1);
    ptx::fence_mbarrier_init();
    ptx::mbarrier_arrive_expect_tx(&shared.parts_arrived,
                                   blocks.share_of(rank) * blocks.count() * (dim * 4 + sizeof(PartState)));
  }
  ptx::cluster_arrive_relaxed();
  const int group = static_cast<int>(threadIdx.x) / 128;

  // The last query tiles come first: under a causal mask they are the longest. One head needs no division.
  const std::uint32_t work = blocks.quotient(blockIdx.x);
  std::uint32_t query_tile = work, h = 0, b = 0;
  if (work >= args.query_tiles) {
    query_tile = work % args.query_tiles;
    h = work / args.query_tiles % args.query_heads;
    b = work / args.query_tiles / args.query_heads;
  }
  const std::uint32_t kv_head = h == 0 ? 0 : h / args.group;
  const int first_query = static_cast<int>(args.query_tiles - 1 - query_tile) * block_q;

  // Key tiles that any row sees, cut into one contiguous run for each block of the cluster.
  const int last_query = min(first_query + block_q, args.query_len) - 1;
  const int begin = args.keys.first(first_query) / block_kv(group_kv);
  const int end = (args.keys.last(last_query) + block_kv(group_kv) - 1) / block_kv(group_kv);
  const std::uint32_t tiles = max(end - begin, 0);
  const int run_begin = begin + static_cast<int>(blocks.quotient(tiles * rank));
  const int run_end = begin + static_cast<int>(blocks.quotient(tiles * (rank + 1)));
  // Keys that all 64 rows see: tiles inside need no mask.
  const int common_begin = args.keys.first(last_query), common_end = args.keys.last(first_query);

  RunningRows<dim, cut_of(group_kv)> rows_of;
  bool suspicious = false;
#pragma unroll 1
  for (int tile = run_begin; tile < run_end; ++tile) {
    // What follows from the thread's number is worked out again for every tile rather than kept in registers.
    int thread = static_cast<int>(threadIdx.x);
    asm volatile("" : "+r"(thread));
    constexpr int first_value = block_q + block_kv(group_kv);
    const int first_key = tile * block_kv(group_kv);
    const bool first = tile == run_begin;
    if (first) {
      copy_rows<dim, group_kv, 0, block_q>(shared, thread, args.q, args.q.head(b, h), first_query,
                                           args.query_len, args.head_dim);
    } else {
      __syncthreads();  // the planes of the tile before have been read
    }
    copy_rows<dim, group_kv, block_q, block_kv(group_kv)>(shared, thread, args.k, args.k.head(b, kv_head),
                                                          first_key, args.keys.kv_len, args.head_dim);
    copy_rows<dim, group_kv, first_value, block_kv(group_kv)>(shared, thread, args.v, args.v.head(b, kv_head),
                                                              first_key, args.keys.kv_len, args.value_dim);
    if (first) ptx::cluster_wait();  // the others' barriers are there
    bool mine = false;
    if constexpr (group_kv == 16) {
      ptx::copy_async_wait<0>();
      mine = first ? split_range<0, rows(group_kv)>(shared, thread, args.scale_log2)
                   : split_range<block_q, rows(group_kv)>(shared, thread, args.scale_log2);
    } else {
      ptx::copy_async_wait<1>();  // V may still be under way
      if (first) mine = split_range<0, block_q>(shared, thread, args.scale_log2);
      mine |= split_range<block_q, first_value>(shared, thread, args.scale_log2);
      ptx::copy_async_wait<0>();
      mine |= split_range<first_value, rows(group_kv)>(shared, thread, args.scale_log2);
    }
    ptx::fence_proxy_async_shared();
    suspicious = __syncthreads_or(mine) != 0 || suspicious;
    const bool edge = first_key < common_begin || first_key + block_kv(group_kv) > common_end;
    attend(rows_of, shared, args, thread, first_query, first_key, edge);
  }
  if (run_begin >= run_end) ptx::cluster_wait();
  send_rows(shared, args, rows_of, group, rank, suspicious);
  finish_rows(shared, args, b, h, first_query, rank);
}

}  // namespace runmax::cluster
