// Merging the splits over keys.
#pragma once

#include <cstdint>

#include "device/softmax/natural_lse.cuh"

namespace runmax::planes {

inline constexpr int combine_threads = 256;

// Merges the splits of each row in their order. One warp a row. Partial outputs are normalised; maxima are
// integers in log2, so every factor but the sums is exact.
template <class Arguments>
__device__ inline void combine_rows(const Arguments& args) {
  const std::int64_t rows = args.batch * args.query_heads * args.query_len;
  const std::int64_t row = (std::int64_t{blockIdx.x} * combine_threads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const std::int64_t i = row % args.query_len, h = row / args.query_len % args.query_heads,
                     b = row / args.query_len / args.query_heads;
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
  for (int channel = lane; channel < (args.value_dim + 31) / 32 * 32; channel += 32) {
    float out = 0.0f;
#pragma unroll 8
    for (int split = 0; split < args.splits; ++split) {
      const float of_split = __shfl_sync(0xffffffffu, weight, split);
      const float part =
          channel < args.value_dim ? args.partial_out[(split * rows + row) * args.value_dim + channel] : 0.0f;
      if (of_split != 0.0f) out = fmaf(of_split, part, out);
    }
    if (channel < args.value_dim)
      args.o.head(b, h)[i * args.o.row_stride + channel * args.o.channel_stride] = empty ? 0.0f : out / sum;
  }
  if (lane == 0 && args.lse.data) args.lse.head(b, h)[i * args.lse.row_stride] = natural_lse(total_max, sum);
}

}  // namespace runmax::planes
