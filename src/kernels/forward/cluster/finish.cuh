// The parts of a cluster's rows, and how they become the result.
#pragma once

#include <cfloat>
#include <cstdint>

#include "device/ptx/cluster.cuh"
#include "device/softmax/attend_row.cuh"
#include "device/softmax/natural_lse.cuh"
#include "device/tile/planes.cuh"
#include "kernels/forward/cluster/arguments.cuh"
#include "kernels/forward/cluster/attend.cuh"
#include "kernels/forward/cluster/config.hpp"
#include "kernels/forward/cluster/planes.cuh"

namespace runmax::cluster {

// Merges what both warpgroups found and sends each row to the block that finishes it. Each group takes half
// of the columns from the other. A thread of one holds what the same thread of the other holds: rows
// first_row and first_row + 8, columns 8n + column + {0, 1}.
template <int dim, int group_kv>
__device__ void send_rows(Shared<dim, group_kv>& shared, const ForwardArguments& args,
                          RunningRows<dim>& rows_of, int group, std::uint32_t rank, bool suspicious) {
  constexpr int half = dim / 4;  // floats of a thread that change hands
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int first_row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
  auto& exchange = *reinterpret_cast<Exchange<dim>*>(shared.memory);
  float4 mine[half / 4];  // the columns that stay here; the others go
#pragma unroll
  for (int n = 0; n < half / 4; ++n) {
    const auto of = [&](int at) {
      return make_float4(rows_of.out[at / 8][at % 8 * 4], rows_of.out[at / 8][at % 8 * 4 + 1],
                         rows_of.out[at / 8][at % 8 * 4 + 2], rows_of.out[at / 8][at % 8 * 4 + 3]);
    };
    const float4 low = of(n), high = of(n + half / 4);
    reinterpret_cast<float4*>(exchange.out[group])[n * 128 + thread] = group == 0 ? high : low;
    mine[n] = group == 0 ? low : high;
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    rows_of.sum[r] += __shfl_xor_sync(0xffffffffu, rows_of.sum[r], 1);
    rows_of.sum[r] += __shfl_xor_sync(0xffffffffu, rows_of.sum[r], 2);
    if (column == 0)
      exchange.state[group][first_row + 8 * r] = {rows_of.max[r], rows_of.sum[r], rows_of.exponent[r], 0.0f};
  }
  __syncthreads();
  if (threadIdx.x == 0) ptx::mbarrier_arrive_expect_tx(&shared.parts_arrived, sizeof(Parts<dim>));

  // Lanes in pairs: an even one sends four neighbouring columns of the first row, an odd one of the second.
  const int sends = thread % 2, log2_share = 6 - static_cast<int>(args.log2_blocks);
  const int row = first_row + 8 * sends;
  const std::uint32_t owner = static_cast<std::uint32_t>(row) >> log2_share;
  const int place = static_cast<int>(rank << log2_share) + (row & ((1 << log2_share) - 1));
  const std::uint32_t barrier = ptx::address_in_block(&shared.parts_arrived, owner);
  const std::uint32_t out =
      ptx::address_in_block(&shared.parts.out[place][column / 4 * 4 + group * (dim / 2)], owner);
  float factor[2], other_factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const PartState other = exchange.state[1 - group][first_row + 8 * r];
    const float max = fmaxf(rows_of.max[r], other.max);
    const float fall = rows_of.max[r] - max, other_fall = other.max - max;
    const float exponent = fmaxf(fall + rows_of.exponent[r], other_fall + other.exponent);
    factor[r] = ptx::exp2_approx(fall + (rows_of.exponent[r] - exponent));
    other_factor[r] = ptx::exp2_approx(other_fall + (other.exponent - exponent));
    if (column == 2 * r && group == 0)
      ptx::store_async(
          ptx::address_in_block(&shared.parts.state[place], owner),
          make_float4(max, rows_of.sum[r] * ptx::exp2_approx(fall) + other.sum * ptx::exp2_approx(other_fall),
                      exponent, suspicious ? 1.0f : 0.0f),
          barrier);
  }
#pragma unroll
  for (int n = 0; n < half / 4; ++n) {
    const float4 other = reinterpret_cast<const float4*>(exchange.out[1 - group])[n * 128 + thread];
    const float2 first = make_float2(fmaf(mine[n].x, factor[0], other.x * other_factor[0]),
                                     fmaf(mine[n].y, factor[0], other.y * other_factor[0]));
    const float2 second = make_float2(fmaf(mine[n].z, factor[1], other.z * other_factor[1]),
                                      fmaf(mine[n].w, factor[1], other.w * other_factor[1]));
    const float2 give = sends == 0 ? second : first, keep = sends == 0 ? first : second;
    const float2 got =
        make_float2(__shfl_xor_sync(0xffffffffu, give.x, 1), __shfl_xor_sync(0xffffffffu, give.y, 1));
    ptx::store_async(
        out + 32 * n,
        sends == 0 ? make_float4(keep.x, keep.y, got.x, got.y) : make_float4(got.x, got.y, keep.x, keep.y),
        barrier);
  }
}

// Stores one row of the output: four channels that stand side by side.
__device__ inline void store4(const ForwardArguments& args, float* row, int channel, float4 x) {
  if (args.o.channel_stride == 1 && channel + 4 <= args.value_dim &&
      reinterpret_cast<std::uintptr_t>(row + channel) % 16 == 0) {
    *reinterpret_cast<float4*>(row + channel) = x;
    return;
  }
  float* at = row + channel * args.o.channel_stride;
#pragma unroll 1
  for (int c = 0; c < 4; ++c) {
    if (channel + c < args.value_dim) *at = c == 0 ? x.x : c == 1 ? x.y : c == 2 ? x.z : x.w;
    at += args.o.channel_stride;
  }
}

// Rows of a block by FMA from the original numbers, a warp each.
template <int dim>
__device__ __noinline__ void recompute_rows(const ForwardArguments& args, std::uint32_t b, std::uint32_t h,
                                            int first, int end) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = first + warp; i < min(end, args.query_len); i += threads / 32) {
    SoftmaxState<float> state;
    float out[dim / 32] = {};
    attend_row<dim / 32>(state, out, args.q.head(b, h) + i * args.q.row_stride, args.q,
                         args.k.head(b, h / args.group), args.k, args.v.head(b, h / args.group), args.v,
                         args.head_dim, args.value_dim, args.scale, args.keys.first(i), args.keys.last(i),
                         lane);
    const float normalizer = softmax_normalizer(state);
#pragma unroll
    for (int c = 0; c < dim / 32; ++c)
      if (lane + 32 * c < args.value_dim)
        args.o.head(b, h)[i * args.o.row_stride + (lane + 32 * c) * args.o.channel_stride] =
            out[c] * normalizer;
    if (lane == 0 && args.lse.data) args.lse.head(b, h)[i * args.lse.row_stride] = softmax_lse(state);
  }
}

// The block finishes its share of the rows once all parts have arrived, 16 lanes a row. Parts are added in
// their order and scaled by exact powers of two. If any block met a row that the planes may not hold, all
// rows are computed again from the original numbers.
template <int dim, int group_kv>
__device__ void finish_rows(Shared<dim, group_kv>& shared, const ForwardArguments& args, std::uint32_t b,
                            std::uint32_t h, int first_query, std::uint32_t rank) {
  constexpr int vectors = dim / 64;
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int parts = 1 << args.log2_blocks, share = block_q >> args.log2_blocks;
  const int first_row = static_cast<int>(rank) * share;
  bool suspicious = false;
  ptx::mbarrier_wait(&shared.parts_arrived, 0, "the cluster's parts to arrive");
#pragma unroll 1
  for (int row = static_cast<int>(threadIdx.x) / 16; row < share; row += threads / 16) {
    float max = -FLT_MAX, unit = -INFINITY;  // outputs in units of 2^(unit - 30), beside weights of 2^-max
#pragma unroll
    for (int part = 0; part < most_blocks; ++part) {
      if (part >= parts) break;
      const PartState state = shared.parts.state[part * share + row];
      suspicious = suspicious || state.suspicious != 0.0f;
      const float new_max = fmaxf(max, state.max);
      unit += max - new_max;
      if (state.sum != 0.0f) unit = fmaxf(unit, state.max - new_max + state.exponent);
      max = new_max;
    }
    float sum = 0.0f;
    float4 total[vectors] = {};
#pragma unroll 2
    for (int part = 0; part < parts; ++part) {
      const PartState state = shared.parts.state[part * share + row];
      sum = fmaf(state.sum, ptx::exp2_approx(state.max - max), sum);
      // 0 for a part that saw no key, or whose output is nothing beside the others'.
      const float factor =
          state.sum == 0.0f ? 0.0f : ptx::exp2_approx(state.max - max + (state.exponent - unit));
#pragma unroll
      for (int c = 0; c < vectors; ++c) {
        const float4 out =
            *reinterpret_cast<const float4*>(&shared.parts.out[part * share + row][4 * lane + 64 * c]);
        total[c].x = fmaf(factor, out.x, total[c].x);
        total[c].y = fmaf(factor, out.y, total[c].y);
        total[c].z = fmaf(factor, out.z, total[c].z);
        total[c].w = fmaf(factor, out.w, total[c].w);
      }
    }
    const int i = first_query + row + first_row;
    if (i >= args.query_len) continue;
    // 2^exponent may lie below FP32's smallest number although the result does not: two factors.
    const float exponent = fmaxf(unit, -300.0f) - 2.0f * static_cast<float>(tile::plane_exponent);
    const float half_exponent = floorf(0.5f * exponent);
    const float normalizer = sum == 0.0f ? 0.0f : ptx::exp2_approx(half_exponent) * ptx::reciprocal(sum);
    const float rest = sum == 0.0f ? 0.0f : ptx::exp2_approx(exponent - half_exponent);
    float* o = args.o.head(b, h) + i * args.o.row_stride;
#pragma unroll
    for (int c = 0; c < vectors; ++c)
      store4(args, o, channel_of<dim>(4 * lane + 64 * c),
             make_float4(total[c].x * normalizer * rest, total[c].y * normalizer * rest,
                         total[c].z * normalizer * rest, total[c].w * normalizer * rest));
    if (lane == 0 && args.lse.data) args.lse.head(b, h)[i * args.lse.row_stride] = natural_lse(max, sum);
  }
  if (__syncthreads_or(suspicious) != 0)
    recompute_rows<dim>(args, b, h, first_query + first_row, first_query + first_row + share);
}

}  // namespace runmax::cluster
