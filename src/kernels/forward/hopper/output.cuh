// Finished rows, and where they go.
#pragma once

#include <cstdint>

#include "kernels/forward/hopper/softmax.cuh"
#include "kernels/forward/hopper/work.cuh"

namespace runmax::hopper {

// Where a row's result goes: the caller's tensors, or this split's part of the workspace.
struct RowOutput {
  float* out;
  std::int64_t channel_stride;
  float* state;  // null when the row is whole

  __device__ RowOutput(const ForwardArguments& args, const WorkItem& work, int i) {
    if (args.splits == 1) {
      out = args.o.head(work.b, work.h) + i * args.o.row_stride;
      channel_stride = args.o.channel_stride;
      state = nullptr;
    } else {
      const std::int64_t row =
          ((work.split * args.batch + work.b) * args.query_heads + work.h) * args.query_len + i;
      out = args.partial_out + row * args.value_dim;
      channel_stride = 1;
      state = args.partial_state + 2 * row;
    }
  }

  // max in log2.
  __device__ void store_state(const ForwardArguments& args, const WorkItem& work, int i, float max,
                              float sum) const {
    if (state) {
      state[0] = sum == 0.0f ? -INFINITY : max;
      state[1] = sum;
    } else if (args.lse.data) {
      args.lse.head(work.b, work.h)[i * args.lse.row_stride] = natural_lse(max, sum);
    }
  }
};

// Divides by the sum and stores 64 finished rows, or this split's share of them.
template <ForwardTile config>
__device__ void store_rows(const float (&o_reg)[config.dim / 2], RowState (&rows)[2],
                           const ForwardArguments& args, const WorkItem& work, int first_row, int column) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    RowState& row = rows[r];
    float sum = row.sum;
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const int i = work.first_row + first_row + 8 * r;
    if (i >= args.query_len) continue;
    // 2^(E - 30) may be below FP32's smallest number although the product is not: two factors.
    const float exponent = fmaxf(row.exponent, -300.0f) - 2.0f * static_cast<float>(plane_exponent);
    const float half_exponent = floorf(0.5f * exponent);
    const float normalizer = sum == 0.0f ? 0.0f : ptx::exp2_approx(half_exponent) / sum;
    const float rest = sum == 0.0f ? 0.0f : ptx::exp2_approx(exponent - half_exponent);
    const RowOutput output(args, work, i);
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
