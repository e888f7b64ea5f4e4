// Merging the splits over keys.
#pragma once

#include <cstdint>

#include "device/ptx/warpgroup.cuh"
#include "device/softmax/natural_lse.cuh"
#include "kernels/forward/hopper/arguments.cuh"

namespace runmax::hopper {

// Merges the splits of each row in their order. One warp a row. Partial outputs are normalised; maxima are
// integers in log2, so every factor but the sums is exact.
inline constexpr int combine_threads = 256;

__global__ void __launch_bounds__(combine_threads)
    combine_kernel(const __grid_constant__ ForwardArguments args) {
  ptx::wait_for_dependencies();
  const std::int64_t rows = args.batch * args.query_heads * args.query_len;
  const std::int64_t row = (std::int64_t{blockIdx.x} * combine_threads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  std::int64_t i = row, h = 0, b = 0;
  if (row >= args.query_len) {  // one head needs no division
    i = row % args.query_len;
    h = row / args.query_len % args.query_heads;
    b = row / args.query_len / args.query_heads;
  }
  // A lane for each split: the plan makes at most 32.
  float max = -INFINITY, weight = 0.0f;
  if (lane < args.splits) {
    const float2 state = reinterpret_cast<const float2*>(args.partial_state)[lane * rows + row];
    max = state.x;
    weight = state.y;
  }
  float total_max = max;
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    total_max = fmaxf(total_max, __shfl_xor_sync(0xffffffffu, total_max, lanes));
  // A split that saw no key has weight 0; exp2(-inf - -inf) must not turn it into NaN.
  if (weight != 0.0f) weight *= exp2f(max - total_max);
  float sum = weight;
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  const bool empty = sum == 0.0f;
  const float normalizer = empty ? 0.0f : 1.0f / sum;
  float* o = args.o.head(b, h) + i * args.o.row_stride;
  const float* part = args.partial_out + row * args.value_dim;
  const std::int64_t parts_apart = rows * args.value_dim;
#pragma unroll 1
  for (int first = 0; first < args.value_dim; first += 64) {
    const int channel = first + 2 * lane, there = min(args.value_dim - channel, 2);
    float2 out = make_float2(0.0f, 0.0f);
#pragma unroll 8
    for (int split = 0; split < args.splits; ++split) {
      const float of_split = __shfl_sync(0xffffffffu, weight, split);
      const float* from = part + split * parts_apart + channel;
      float2 value = make_float2(0.0f, 0.0f);
      if (args.value_dim % 2 == 0) {
        if (there > 0) value = *reinterpret_cast<const float2*>(from);
      } else {
        if (there > 0) value.x = from[0];
        if (there > 1) value.y = from[1];
      }
      if (of_split != 0.0f) {
        out.x = fmaf(of_split, value.x, out.x);
        out.y = fmaf(of_split, value.y, out.y);
      }
    }
    if (there > 0) o[channel * args.o.channel_stride] = out.x * normalizer;
    if (there > 1) o[(channel + 1) * args.o.channel_stride] = out.y * normalizer;
  }
  if (lane == 0 && args.lse.data) args.lse.head(b, h)[i * args.lse.row_stride] = natural_lse(total_max, sum);
}

}  // namespace runmax::hopper
