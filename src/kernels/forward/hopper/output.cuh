// Finished rows on their way out.
#pragma once

#include <cstdint>

#include "device/planes/output.cuh"
#include "kernels/forward/hopper/arguments.cuh"

namespace runmax::hopper {

// Divides by the sum and stores 64 finished rows, or this split's share of them.
template <ForwardTile config>
__device__ void store_rows(const float (&o_reg)[config.dim / 2], planes::RowState (&rows)[2],
                           const ForwardArguments& args, const planes::WorkItem& work, int first_row,
                           int column) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    planes::RowState& row = rows[r];
    float sum = row.sum;
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const int i = work.first_row + first_row + 8 * r;
    if (i >= args.query_len) continue;
    // 2^(E - 30) may be below FP32's smallest number although the product is not: two factors.
    const float exponent = fmaxf(row.exponent, -300.0f) - 2.0f * static_cast<float>(tile::plane_exponent);
    const float half_exponent = floorf(0.5f * exponent);
    const float normalizer = sum == 0.0f ? 0.0f : ptx::exp2_approx(half_exponent) / sum;
    const float rest = sum == 0.0f ? 0.0f : ptx::exp2_approx(exponent - half_exponent);
    const planes::RowOutput output(args, work, i);
    float* out = output.out + column * output.channel_stride;
    if (output.channel_stride == 1 && args.value_dim == config.dim &&
        reinterpret_cast<std::uintptr_t>(out) % sizeof(float2) == 0) {
#pragma unroll
      for (int n = 0; n < config.dim / 8; ++n)
        *reinterpret_cast<float2*>(out + 8 * n) = make_float2(o_reg[4 * n + 2 * r] * normalizer * rest,
                                                              o_reg[4 * n + 2 * r + 1] * normalizer * rest);
    } else {
#pragma unroll
      for (int n = 0; n < config.dim / 8; ++n) {
        if (8 * n + column < args.value_dim) *out = o_reg[4 * n + 2 * r] * normalizer * rest;
        if (8 * n + column + 1 < args.value_dim)
          out[output.channel_stride] = o_reg[4 * n + 2 * r + 1] * normalizer * rest;
        out += 8 * output.channel_stride;
      }
    }
    if (column == 0) output.store_state(args, work, i, row.max, sum);
  }
}

}  // namespace runmax::hopper
