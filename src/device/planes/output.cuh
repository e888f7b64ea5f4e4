// Finished rows, and where they go.
#pragma once

#include <cstdint>

#include "device/planes/softmax.cuh"
#include "device/planes/work.cuh"
#include "device/softmax/natural_lse.cuh"

namespace runmax::planes {

// Where a row's result goes: the caller's tensors, or this split's part of the workspace.
struct RowOutput {
  float* out;
  std::int64_t channel_stride;
  float* state;  // null when the row is whole

  template <class Arguments>
  __device__ RowOutput(const Arguments& args, const WorkItem& work, int i) {
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
  template <class Arguments>
  __device__ void store_state(const Arguments& args, const WorkItem& work, int i, float max,
                              float sum) const {
    if (state) {
      state[0] = sum == 0.0f ? -INFINITY : max;
      state[1] = sum;
    } else if (args.lse.data) {
      args.lse.head(work.b, work.h)[i * args.lse.row_stride] = natural_lse(max, sum);
    }
  }
};

// Divides by the sum and stores a warp's finished rows, or this split's share of them. o_reg lies as
// accumulators of the matrix unit do: o_reg[4 n + 2 r + c] is row first_row + 8 r, channel 8 n + column + c.
template <int half_dim, class Arguments>
__device__ void store_rows(const float (&o_reg)[half_dim], RowState (&rows)[2], const Arguments& args,
                           const WorkItem& work, int first_row, int column) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    RowState& row = rows[r];
    float sum = row.sum;
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const int i = work.first_row + first_row + 8 * r;
    if (i >= args.query_len) continue;
    const bool empty = sum == 0.0f;
    const float normalizer = empty ? 0.0f : 1.0f / sum;
    // 2^(E - 30) may be below FP32's smallest number although the product is not: two factors.
    const float exponent = fmaxf(row.exponent, -300.0f) - 2.0f * static_cast<float>(tile::plane_exponent);
    const float half_exponent = floorf(0.5f * exponent);
    const float unit_a = exp2f(half_exponent), unit_b = exp2f(exponent - half_exponent);
    const RowOutput output(args, work, i);
    const bool pairs = output.channel_stride == 1 && args.value_dim % 2 == 0 &&
                       reinterpret_cast<std::uintptr_t>(output.out) % sizeof(float2) == 0;
#pragma unroll
    for (int n = 0; n < half_dim / 4; ++n) {
      const int channel = 8 * n + column;
      float2 value = make_float2(o_reg[4 * n + 2 * r], o_reg[4 * n + 2 * r + 1]);
      value.x = empty ? 0.0f : value.x * normalizer * unit_a * unit_b;
      value.y = empty ? 0.0f : value.y * normalizer * unit_a * unit_b;
      if (pairs) {
        if (channel < args.value_dim) *reinterpret_cast<float2*>(output.out + channel) = value;
      } else {
        if (channel < args.value_dim) output.out[channel * output.channel_stride] = value.x;
        if (channel + 1 < args.value_dim) output.out[(channel + 1) * output.channel_stride] = value.y;
      }
    }
    if (column == 0) output.store_state(args, work, i, row.max, sum);
  }
}

}  // namespace runmax::planes
