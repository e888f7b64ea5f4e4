// Splitting Q into planes in shared memory.
#pragma once

#include <cfloat>

#include "device/tile/swizzle.hpp"
#include "kernels/forward/hopper/shared.cuh"
#include "kernels/forward/hopper/split.cuh"
#include "kernels/forward/hopper/work.cuh"

namespace runmax::hopper {

// Splits a consumer's 64 rows of Q into planes: a warp takes 16 rows, dim / 8 neighbouring lanes a row.
template <ForwardTile config>
__device__ void split_queries(Shared<config>& shared, const ForwardArguments& args,
                              const planes::WorkItem& work, int consumer, int warp, int lane) {
  constexpr int lanes_per_row = config.dim / 8, rows_per_step = 32 / lanes_per_row,
                steps = 16 / rows_per_step;
  const float* q = args.q.head(work.b, work.h);
  const int first = consumer * 64 + warp * 16 + lane / lanes_per_row, channel = lane % lanes_per_row * 8;
  const auto piece = [&](int row) {
    return shared.q_smem + channel / 64 * (config.block_q() * 128) + tile::swizzled_offset(row, channel % 64);
  };
  float x[steps][8];
  if (loads_vectors(args.q, q) && args.head_dim == config.dim &&
      work.first_row + consumer * 64 + 64 <= args.query_len) {
    const float* row = q + (work.first_row + first) * args.q.row_stride + channel;
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      *reinterpret_cast<float4*>(x[step]) = *reinterpret_cast<const float4*>(row);
      *reinterpret_cast<float4*>(x[step] + 4) = *reinterpret_cast<const float4*>(row + 4);
      row += rows_per_step * args.q.row_stride;
    }
  } else {
    // By way of where the planes will stand, in loops: code that runs once costs by its size.
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      const int row = first + step * rows_per_step, i = work.first_row + row;
#pragma unroll 1
      for (int c = 0; c < 8; ++c)
        reinterpret_cast<float*>(piece(row) + c / 4 * (query_bytes(config) / 2))[c % 4] =
            i < args.query_len && channel + c < args.head_dim
                ? q[i * args.q.row_stride + (channel + c) * args.q.channel_stride]
                : 0.0f;
    }
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const unsigned char* hi = piece(first + step * rows_per_step);
      *reinterpret_cast<float4*>(x[step]) = *reinterpret_cast<const float4*>(hi);
      *reinterpret_cast<float4*>(x[step] + 4) =
          *reinterpret_cast<const float4*>(hi + query_bytes(config) / 2);
    }
  }
  bool large = false;
  float largest[steps];
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    largest[step] = 0.0f;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      x[step][c] *= args.scale_log2;
      if (fabsf(x[step][c]) <= FLT_MAX) largest[step] = fmaxf(largest[step], fabsf(x[step][c]));
    }
  }
#pragma unroll
  for (int lanes = lanes_per_row / 2; lanes > 0; lanes /= 2)
#pragma unroll
    for (int step = 0; step < steps; ++step)
      largest[step] = fmaxf(largest[step], __shfl_xor_sync(0xffffffffu, largest[step], lanes));
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int row = first + step * rows_per_step;
    const int exponent = max(exponent_above(largest[step]), smallest_exponent);
    large = large || exponent > suspicious_exponent;
    const float unit = power_of_2(plane_exponent - exponent);
#pragma unroll
    for (int c = 0; c < 8; ++c) x[step][c] *= unit;
    const SplitPiece planes = split_piece(x[step]);
    *reinterpret_cast<uint4*>(piece(row)) = planes.hi;
    *reinterpret_cast<uint4*>(piece(row) + query_bytes(config) / 2) = planes.lo;
    if (channel == 0) shared.query_unit[row] = power_of_2(exponent - plane_exponent);
  }
  large = __any_sync(0xffffffffu, large) != 0;
  if (lane == 0) shared.suspicious[consumer * 4 + warp] = large ? 1 : 0;
}

}  // namespace runmax::hopper
