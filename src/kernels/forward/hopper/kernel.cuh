// FP32-grade attention on Hopper's tensor cores: a producer that streams key tiles, consumers that attend.
#pragma once

#include <cstdint>

#include "device/planes/recompute.cuh"
#include "device/planes/softmax.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/warpgroup.cuh"
#include "kernels/forward/hopper/multiply.cuh"
#include "kernels/forward/hopper/output.cuh"
#include "kernels/forward/hopper/queries.cuh"
#include "kernels/forward/hopper/shared.cuh"
#include "kernels/forward/hopper/work.cuh"

namespace runmax::hopper {

// One thread streams the images of every work item through the ring: K hi, K lo, V hi, V lo of each tile.
template <ForwardTile config>
__device__ void produce(Shared<config>& shared, const ForwardArguments& args) {
  RingPosition<config.slots> ring;
  std::uint32_t tile_count = 0;
  ptx::wait_for_dependencies();  // the images are written by the kernel before this one
  for (std::uint32_t round = 0; work_index(args, round) < args.work_items; ++round) {
    const planes::WorkItem work = work_item<config>(args, work_index(args, round));
    if (!has_rows(work)) continue;
    const std::int64_t head = work.b * args.kv_heads + work.h / args.group;
    for (int tile = work.tile_begin; tile < work.tile_end; ++tile, ++tile_count) {
      const unsigned char* image = args.images + (head * args.key_tiles + tile) * tile_bytes(config.dim);
#pragma unroll
      for (int part = 0; part < 2 * config.slots_per_operand(); ++part) {
        ptx::mbarrier_wait(&shared.barriers.empty[ring.slot], ring.parity ^ 1, "a slot to be empty");
        std::uint64_t* full = &shared.barriers.full[ring.slot];
        if (part == 0) {
          ptx::mbarrier_arrive_expect_tx(full, slot_bytes + sizeof(TileHeader));
          ptx::bulk_copy_to_shared(&shared.headers[tile_count % config.header_stages],
                                   &args.headers[head * args.key_tiles + tile], sizeof(TileHeader), full);
        } else {
          ptx::mbarrier_arrive_expect_tx(full, slot_bytes);
        }
        ptx::bulk_copy_to_shared(shared.slots[ring.slot], image + part * std::int64_t{slot_bytes}, slot_bytes,
                                 full);
        ring.advance();
      }
    }
  }
}

template <ForwardTile config>
__device__ void consume(Shared<config>& shared, const ForwardArguments& args, int consumer) {
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  const int first_row_of_block = consumer * 64 + warp * 16 + lane / 4;  // and 8 below
  const int column_of_eight = lane % 4 * 2;  // of each 8 keys or channels, and its neighbour
  RingPosition<config.slots> ring;
  int header_stage = 0;
  for (std::uint32_t round = 0; work_index(args, round) < args.work_items; ++round) {
    const planes::WorkItem work = work_item<config>(args, work_index(args, round));
    if (!has_rows(work)) continue;
    split_queries(shared, args, work, consumer, warp, lane);
    ptx::fence_proxy_async_shared();
    ptx::named_barrier_sync(1 + consumer, 128);
    const std::uint64_t q_hi =
        mma::warp_uniform(mma::k_major_descriptor(shared.q_smem + consumer * 64 * 128));
    const std::uint64_t q_lo = mma::advance(q_hi, query_bytes(config) / 2);

    planes::RowState rows[2];
    // Keys that all 64 rows of this consumer see: tiles inside need no mask.
    const int top = min(work.first_row + consumer * 64, args.query_len - 1);
    const int bottom = min(work.first_row + consumer * 64 + 63, args.query_len - 1);
    const int common_begin = args.keys.first(bottom), common_end = args.keys.last(top);

    float o_reg[config.dim / 2];
#pragma unroll
    for (int c = 0; c < config.dim / 2; ++c) o_reg[c] = 0.0f;

    for (int tile = work.tile_begin; tile < work.tile_end; ++tile) {
      // What follows from the thread's number is worked out again for every tile rather than kept in
      // registers.
      int first_row = first_row_of_block, column = column_of_eight;
      asm volatile("" : "+r"(first_row), "+r"(column));
      const int first_key = tile * block_kv;
      const TileHeader& header = shared.headers[header_stage];
      header_stage = header_stage + 1 == config.header_stages ? 0 : header_stage + 1;
      float s_reg[64], shrink[2];
      planes::WeightPlanes<block_kv> p;

      RingPosition<config.slots> held = ring;
      const OperandPlanes k = wait_operand(shared, ring, "keys to land");
      multiply_scores<config>(s_reg, q_hi, q_lo, k);
      release_operand(shared, held, lane);

      if (lane == 0 && (header.listed_keys | header.listed_values | header.large_keys) != 0)
        shared.suspicious[consumer * 4 + warp] = 1;
      const bool edge = first_key < common_begin || first_key + block_kv > common_end;
      if (edge) planes::mask_scores(s_reg, args, work.first_row + first_row, first_key, column);
      const float query_unit[2] = {shared.query_unit[first_row], shared.query_unit[first_row + 8]};
      if (header.wide) {
        planes::weigh<true>(s_reg, p, rows, shrink, header, query_unit, column);
      } else {
        planes::weigh<false>(s_reg, p, rows, shrink, header, query_unit, column);
      }

      float t_reg[config.dim / 2];
      const OperandPlanes v = wait_operand(shared, ring, "values to land");
      multiply_values<config>(t_reg, p, v);
      release_operand(shared, held, lane);
#pragma unroll
      for (int n = 0; n < config.dim / 8; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c)
          o_reg[4 * n + c] = fmaf(o_reg[4 * n + c], shrink[c / 2], t_reg[4 * n + c]);
    }
    // The work item is worked out again rather than kept in registers through the loop.
    std::uint32_t index = work_index(args, round);
    asm volatile("" : "+r"(index));
    const planes::WorkItem done = work_item<config>(args, index);
    store_rows<config>(o_reg, rows, args, done, first_row_of_block, column_of_eight);
    __syncwarp();
    if (shared.suspicious[consumer * 4 + warp] != 0) {
      const int first_row = consumer * 64 + warp * 16;
      planes::recompute_rows<config.dim, block_kv>(
          args, done, first_row, lane, [&](int row) { return shared.query_unit[first_row + row]; });
    }
  }
}

// nvcc cannot name a kernel whose template argument is a struct when another template launches it: dim
// chooses.
template <int dim>
__global__ void __launch_bounds__(tile_of_dim(dim).threads(), 1)
    forward_kernel(const __grid_constant__ ForwardArguments args) {
  constexpr ForwardTile config = tile_of_dim(dim);
  extern __shared__ __align__(1024) unsigned char raw_shared[];
  auto& shared = *reinterpret_cast<Shared<config>*>(raw_shared);
  ptx::launch_dependents();
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < config.slots; ++slot) {
      ptx::mbarrier_init(&shared.barriers.full[slot], 1);
      ptx::mbarrier_init(&shared.barriers.empty[slot], 4 * config.consumers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < 128) {
    ptx::shrink_registers<config.producer_registers>();
    if (threadIdx.x == 0) produce(shared, args);
  } else {
    ptx::grow_registers<config.consumer_registers>();
    consume(shared, args, static_cast<int>(threadIdx.x / 128) - 1);
  }
}

}  // namespace runmax::hopper
