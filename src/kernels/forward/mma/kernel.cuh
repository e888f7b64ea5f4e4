// FP32-grade attention by mma.sync: every warp attends to 16 query rows, a block of warps shares the key
// tiles.
#pragma once

#include <cstdint>

#include "device/planes/combine.cuh"
#include "device/planes/output.cuh"
#include "device/planes/recompute.cuh"
#include "device/planes/softmax.cuh"
#include "device/planes/work.cuh"
#include "device/ptx/mma_sync.cuh"
#include "kernels/forward/mma/arguments.cuh"
#include "kernels/forward/mma/queries.cuh"
#include "kernels/forward/mma/ring.cuh"

namespace runmax::mma_sync {

// d += a b for some groups of 8 columns, 16 rows, 16 deep. Neighbouring instructions have accumulators of
// their own.
template <Form form, int columns>
__device__ inline void multiply(float (&d)[columns][4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[columns][2]) {
  if constexpr (form == Form::m16n8k16) {
#pragma unroll
    for (int n = 0; n < columns; ++n) ptx::mma_m16n8k16(d[n], a, b[n][0], b[n][1]);
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int n = 0; n < columns; ++n) ptx::mma_m16n8k8(d[n], a[2 * half], a[2 * half + 1], b[n][half]);
  }
}

// The three products of planes. The small ones have accumulators of their own: each addition inside the
// matrix unit truncates what it adds to, and nobody should truncate the large sum more often than its own
// products ask for.
template <Form form, int columns>
__device__ inline void multiply_planes(float (&large)[columns][4], float (&small)[columns][4],
                                       const std::uint32_t (&a_hi)[4], const std::uint32_t (&a_lo)[4],
                                       const unsigned char* fragments) {
  std::uint32_t b_hi[columns][2], b_lo[columns][2];
#pragma unroll
  for (int n = 0; n < columns; ++n) {
    const uint4 planes =
        *reinterpret_cast<const uint4*>(fragments + tile::fragment_offset(n, 0, threadIdx.x % 32));
    b_hi[n][0] = planes.x, b_hi[n][1] = planes.y;
    b_lo[n][0] = planes.z, b_lo[n][1] = planes.w;
  }
  multiply<form>(small, a_lo, b_hi);
  multiply<form>(large, a_hi, b_hi);
  multiply<form>(small, a_hi, b_lo);
}

// `columns` accumulators of a longer row of them, from the first one on.
template <int columns, int floats>
__device__ inline float (&accumulators(float (&all)[floats], int first))[columns][4] {
  return *reinterpret_cast<float(*)[columns][4]>(all + 4 * first);
}

// threadIdx.x, read again each time: where a register held through the main loop would cost a spill.
__device__ inline int thread_again() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// Where a thread stands in its block.
struct Place {
  int warp, lane;
  __device__ explicit Place(int thread) : warp(thread / 32), lane(thread % 32) {}
  __device__ int row() const { return 16 * warp + lane / 4; }  // and 8 below, of the block's rows
  __device__ int column() const { return lane % 4 * 2; }  // of each 8 keys or channels, and its neighbour
};

// What the softmax reads of a tile's header: the scalars come along early, the rows of a wide tile when they
// are wanted.
struct TileScale {
  float key_unit, tile_exponent;
  std::int32_t flags;
  const float* value_factor = nullptr;
  const std::int16_t* value_exponent = nullptr;

  __device__ explicit TileScale(const TileHeader& header) {
    const int4 first = __ldg(reinterpret_cast<const int4*>(&header));
    key_unit = __int_as_float(first.x);
    tile_exponent = __int_as_float(first.z);
    flags = first.y | first.w;
  }
};

// What a thread keeps of its two rows between tiles. In shared memory, because the products have no registers
// to spare.
struct ThreadRows {
  float query_unit[2];
};

// Keys that a warp's rows see, there for the same reason.
struct alignas(16) WarpKeys {
  int seen_begin, seen_end;      // by some row
  int common_begin, common_end;  // by all: tiles inside need no mask
  int first_row;

  WarpKeys() = default;
  __device__ WarpKeys(const ForwardArguments& args, int first) : first_row(first) {
    const int top = min(first_row, args.query_len - 1), bottom = min(first_row + 15, args.query_len - 1);
    const bool idle = first_row >= args.query_len;
    seen_begin = args.keys.first(top);
    seen_end = idle ? 0 : args.keys.last(bottom);
    common_begin = args.keys.first(bottom);
    common_end = args.keys.last(top);
  }
};

// The block's work item, worked out again each time.
template <Form form, int dim>
__device__ inline planes::WorkItem work_again(const ForwardArguments& args) {
  std::uint32_t index = blockIdx.x;
  asm volatile("" : "+r"(index));
  return planes::work_item<tile_of(form, dim).block_q(), block_kv>(args, index);
}

template <Form form, int dim>
__global__ void __launch_bounds__(tile_of(form, dim).threads(), tile_of(form, dim).blocks_per_multiprocessor)
    forward_kernel(const __grid_constant__ ForwardArguments args) {
  constexpr ForwardTile config = tile_of(form, dim);
  constexpr int most_slots = dim / slot_channels;  // of each operand
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ WarpKeys warp_keys[config.warps];
  __shared__ ThreadRows thread_rows[config.threads()];
  const Place place(static_cast<int>(threadIdx.x));

  const planes::WorkItem work = planes::work_item<config.block_q(), block_kv>(args, blockIdx.x);
  const std::int64_t head = work.b * args.kv_heads + work.h / args.group;
  const int tiles = max(work.tile_end - work.tile_begin, 0);
  const unsigned char* images =
      args.images + (head * args.key_tiles + work.tile_begin) * args.slots_per_tile() * slot_bytes;
  using Ring = typename RingOf<form, config>::Type;
  if constexpr (config.feeders > 0)
    if (place.warp == config.warps) {
      Ring::feed(shared + query_bytes(config), images, tiles * args.slots_per_tile(), place.lane);
      return;
    }
  Ring ring(shared + query_bytes(config), images, tiles * args.slots_per_tile());
  QueryPlanes<dim / 16, config.query_steps_in_registers> queries(shared);
  bool suspicious =
      split_queries(queries, thread_rows[threadIdx.x].query_unit, args, work, 16 * place.warp, place.lane);

  const WarpKeys& keys = warp_keys[place.warp];
  if (place.lane == 0) warp_keys[place.warp] = WarpKeys(args, work.first_row + 16 * place.warp);
  __syncwarp();

  planes::RowState rows[2];
  float o_reg[dim / 2];
#pragma unroll
  for (int c = 0; c < dim / 2; ++c) o_reg[c] = 0.0f;

  const TileHeader* header = args.headers + head * args.key_tiles + work.tile_begin;
  const int end_key = work.tile_end * block_kv;
  for (int first_key = work.tile_begin * block_kv; first_key < end_key; first_key += block_kv, ++header) {
    if (first_key >= keys.seen_end || first_key + block_kv <= keys.seen_begin) {
      for (int slot = 0; slot < args.slots_per_tile(); ++slot) {
        ring.acquire();
#pragma unroll
        for (int part = 0; part < parts; ++part) ring.fetch(part);
      }
      continue;
    }
    TileScale scale(*header);
    suspicious = suspicious || (scale.flags & is_suspicious) != 0;

    // Some of the tile's keys at a time: the accumulators of the small products are needed for few registers'
    // time.
    constexpr int columns = config.columns, passes = 8 / columns, steps_per_part = 4 * passes / parts;
    float s_reg[block_kv / 2] = {};
#pragma unroll
    for (int slot = 0; slot < most_slots; ++slot) {
      if (slot >= args.key_slots) continue;
      const unsigned char* fragments = ring.acquire();
#pragma unroll
      for (int pass = 0; pass < passes; ++pass) {
        float small_part[columns][4] = {};
#pragma unroll
        for (int step = 0; step < 4; ++step) {
          const int at = 4 * pass + step;
          if (at % steps_per_part == 0) ring.fetch(at / steps_per_part);
          const QueryFragment hi = queries.hi(4 * slot + step), lo = queries.lo(4 * slot + step);
          multiply_planes<form>(accumulators<columns>(s_reg, columns * pass), small_part, hi.of, lo.of,
                                fragments + tile::fragment_offset(columns * pass, step, 0));
        }
#pragma unroll
        for (int n = 0; n < columns; ++n)
#pragma unroll
          for (int c = 0; c < 4; ++c) s_reg[4 * (columns * pass + n) + c] += small_part[n][c];
      }
    }

    if (first_key < keys.common_begin || first_key + block_kv > keys.common_end) {
      const Place again(thread_again());
      planes::mask_scores(s_reg, args, keys.first_row + again.lane / 4, first_key, again.column());
    }
    const ThreadRows own = thread_rows[threadIdx.x];
    planes::WeightPlanes<block_kv> weights;
    float shrink[2];
    if (scale.flags & is_wide) {
      const int column = Place(thread_again()).column();
      scale.value_factor = header->value_factor + column;
      scale.value_exponent = header->value_exponent + column;
      planes::weigh<true>(s_reg, weights, rows, shrink, scale, own.query_unit, 0);
    } else {
      planes::weigh<false>(s_reg, weights, rows, shrink, scale, own.query_unit, 0);
    }

    // The tile's part of the output, some channels at a time, starts from zero and is added once.
#pragma unroll
    for (int slot = 0; slot < most_slots; ++slot) {
      if (slot >= args.value_slots) continue;
      const unsigned char* fragments = ring.acquire();
#pragma unroll
      for (int pass = 0; pass < passes; ++pass) {
        float part[columns][4] = {}, small_part[columns][4] = {};
#pragma unroll
        for (int step = 0; step < 4; ++step) {
          const int at = 4 * pass + step;
          if (at % steps_per_part == 0) ring.fetch(at / steps_per_part);
          multiply_planes<form>(part, small_part, weights.hi[step], weights.lo[step],
                                fragments + tile::fragment_offset(columns * pass, step, 0));
        }
#pragma unroll
        for (int n = 0; n < columns; ++n)
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            float& out = o_reg[4 * (8 * slot + columns * pass + n) + c];
            out = fmaf(out, shrink[c / 2], part[n][c] + small_part[n][c]);
          }
      }
    }
  }
  // The work item is worked out again rather than kept in registers through the loop.
  const planes::WorkItem done = work_again<form, dim>(args);
  const Place again(thread_again());
  if (done.first_row + 16 * again.warp >= args.query_len) return;
  planes::store_rows(o_reg, rows, args, done, again.row(), again.column());
  __syncwarp();
  if (suspicious)
    planes::recompute_rows<dim, block_kv>(args, done, 16 * again.warp, again.lane, [&](int row) {
      return thread_rows[32 * again.warp + row % 8 * 4].query_unit[row / 8];
    });
}

// Of a form only because each form is compiled for architectures of its own.
template <Form>
__global__ void __launch_bounds__(planes::combine_threads)
    combine_kernel(const __grid_constant__ ForwardArguments args) {
  planes::combine_rows(args);
}

}  // namespace runmax::mma_sync
