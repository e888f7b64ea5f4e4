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

// Columns 8n + column + {0, 1} of a warpgroup's half of the outputs, of rows first_row and first_row + 8.
template <int dim>
using HalfRows = float4[dim / 16];

// Both warpgroups found something for all columns, of other keys: each takes half of the columns from the
// other. A thread of one holds what the same thread of the other holds.
template <int dim, int group_kv>
__device__ void merge_groups(Shared<dim, group_kv>& shared, RunningRows<dim, Cut::keys>& rows_of,
                             HalfRows<dim>& out, int group, int first_row, int column) {
  constexpr int vectors = dim / 16;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  auto& exchange = *reinterpret_cast<Exchange<dim>*>(shared.memory);
#pragma unroll
  for (int n = 0; n < vectors; ++n) {
    const float4 low = rows_of.columns_of(n), high = rows_of.columns_of(n + vectors);
    reinterpret_cast<float4*>(exchange.out[group])[n * 128 + thread] = group == 0 ? high : low;
    out[n] = group == 0 ? low : high;
  }
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (column == 0)
      exchange.state[group][first_row + 8 * r] = {rows_of.max[r], rows_of.sum[r], rows_of.exponent[r], 0.0f};
  __syncthreads();
  float factor[2], other_factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const PartState other = exchange.state[1 - group][first_row + 8 * r];
    const float max = fmaxf(rows_of.max[r], other.max);
    const float fall = rows_of.max[r] - max, other_fall = other.max - max;
    const float exponent = fmaxf(fall + rows_of.exponent[r], other_fall + other.exponent);
    factor[r] = ptx::exp2_approx(fall + (rows_of.exponent[r] - exponent));
    other_factor[r] = ptx::exp2_approx(other_fall + (other.exponent - exponent));
    rows_of.sum[r] = rows_of.sum[r] * ptx::exp2_approx(fall) + other.sum * ptx::exp2_approx(other_fall);
    rows_of.max[r] = max;
    rows_of.exponent[r] = exponent;
  }
#pragma unroll
  for (int n = 0; n < vectors; ++n) {
    const float4 other = reinterpret_cast<const float4*>(exchange.out[1 - group])[n * 128 + thread];
    out[n].x = fmaf(out[n].x, factor[0], other.x * other_factor[0]);
    out[n].y = fmaf(out[n].y, factor[0], other.y * other_factor[0]);
    out[n].z = fmaf(out[n].z, factor[1], other.z * other_factor[1]);
    out[n].w = fmaf(out[n].w, factor[1], other.w * other_factor[1]);
  }
}

// Sends each row to the block that finishes it, half of its columns from each warpgroup.
template <int dim, int group_kv>
__device__ void send_rows(Shared<dim, group_kv>& shared, const ForwardArguments& args,
                          RunningRows<dim, cut_of(group_kv)>& rows_of, int group, std::uint32_t rank,
                          bool suspicious) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int first_row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    rows_of.sum[r] += __shfl_xor_sync(0xffffffffu, rows_of.sum[r], 1);
    rows_of.sum[r] += __shfl_xor_sync(0xffffffffu, rows_of.sum[r], 2);
  }
  HalfRows<dim> rows;
  if constexpr (cut_of(group_kv) == Cut::keys) {
    __syncthreads();  // both groups have read the planes
    merge_groups(shared, rows_of, rows, group, first_row, column);
  } else {
#pragma unroll
    for (int n = 0; n < dim / 16; ++n) rows[n] = rows_of.columns_of(n);
  }

  // Lanes in pairs: an even one sends four neighbouring columns of the first row, an odd one of the second.
  const int sends = thread % 2;
  const int row = first_row + 8 * sends;
  const Blocks<group_kv> blocks{args.log2_blocks};
  const std::uint32_t owner = blocks.owner(row);
  const std::uint32_t place = rank * blocks.share() + row - owner * blocks.share();
  const std::uint32_t barrier = ptx::address_in_block(&shared.parts_arrived, owner);
  const std::uint32_t out =
      ptx::address_in_block(&shared.parts.out[place][column / 4 * 4 + group * (dim / 2)], owner);
  if (group == 0 && column == 2 * sends)
    ptx::store_async(
        ptx::address_in_block(&shared.parts.state[place], owner),
        make_float4(sends == 0 ? rows_of.max[0] : rows_of.max[1],
                    sends == 0 ? rows_of.sum[0] : rows_of.sum[1],
                    sends == 0 ? rows_of.exponent[0] : rows_of.exponent[1], suspicious ? 1.0f : 0.0f),
        barrier);
#pragma unroll
  for (int n = 0; n < dim / 16; ++n) {
    const float2 first = make_float2(rows[n].x, rows[n].y), second = make_float2(rows[n].z, rows[n].w);
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
  const Blocks<group_kv> blocks{args.log2_blocks};
  const int parts = static_cast<int>(blocks.count()), share = static_cast<int>(blocks.share());
  const int first_row = static_cast<int>(rank) * share;
  bool suspicious = false;
  ptx::mbarrier_wait(&shared.parts_arrived, 0, "the cluster's parts to arrive");
#pragma unroll 1
  for (int row = static_cast<int>(threadIdx.x) / 16; row < static_cast<int>(blocks.share_of(rank));
       row += threads / 16) {
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
    recompute_rows<dim>(args, b, h, first_query + first_row,
                        first_query + first_row + static_cast<int>(blocks.share_of(rank)));
}

}  // namespace runmax::cluster
