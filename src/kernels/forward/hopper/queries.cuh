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
__device__ void split_queries(Shared<config>& shared, const ForwardArguments& args, const WorkItem& work,
                              int consumer, int warp, int lane) {
  constexpr int lanes_per_row = config.dim / 8, rows_per_step = 32 / lanes_per_row,
                steps = 16 / rows_per_step;
  const float* q = args.q.head(work.b, work.h);
  const bool vectors = loads_vectors(args.q, q);
  const int first = consumer * 64 + warp * 16 + lane / lanes_per_row, channel = lane % lanes_per_row * 8;
  float x[steps][8];
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int i = work.first_row + first + step * rows_per_step;
    load_piece(x[step], q + i * args.q.row_stride, args.q.channel_stride, channel, args.head_dim,
               i < args.query_len, vectors);
  }
  bool large = false;
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int row = first + step * rows_per_step;
    float largest = 0.0f;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      x[step][c] *= args.scale_log2;
      if (fabsf(x[step][c]) <= FLT_MAX) largest = fmaxf(largest, fabsf(x[step][c]));
    }
#pragma unroll
    for (int lanes = lanes_per_row / 2; lanes > 0; lanes /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));
    const int exponent = max(exponent_above(largest), smallest_exponent);
    large = large || exponent > suspicious_exponent;
    const Power2 unit(plane_exponent - exponent);
#pragma unroll
    for (int c = 0; c < 8; ++c) x[step][c] = unit.times(x[step][c]);
    const SplitPiece planes = split_piece(x[step]);
    const std::uint32_t at =
        channel / 64 * (config.block_q() * 128) + tile::swizzled_offset(row, channel % 64);
    *reinterpret_cast<uint4*>(shared.q_smem + at) = planes.hi;
    *reinterpret_cast<uint4*>(shared.q_smem + query_bytes(config) / 2 + at) = planes.lo;
    if (channel == 0) shared.query_unit[row] = Power2(exponent - plane_exponent).times(1.0f);
  }
  large = __any_sync(0xffffffffu, large) != 0;
  if (lane == 0) shared.suspicious[consumer * 4 + warp] = large ? 1 : 0;
}

}  // namespace runmax::hopper
