// One query row by one warp, by FMA and natural exponentials from the original numbers.
#pragma once

#include <cstdint>

#include "device/tile/tensor.cuh"
#include "runmax/online_softmax.hpp"

namespace runmax {

// Attends to keys [begin, end) and leaves {max, sum} in `state`, unnormalised outputs in `out`: lane c holds
// channels c, c + 32, ... A lane takes one of 32 keys, then every 32nd channel. Slow and right: for rows that
// faster arithmetic cannot hold, such as those that see a NaN.
template <int channels, class Index>
__device__ void attend_row(SoftmaxState<float>& state, float (&out)[channels], const float* q,
                           const DeviceTensor<const float>& q_tensor, const float* k,
                           const DeviceTensor<const float>& k_tensor, const float* v,
                           const DeviceTensor<const float>& v_tensor, int head_dim, int value_dim,
                           float scale, Index begin, Index end, int lane) {
  for (Index first = begin; first < end; first += 32) {
    float score = -INFINITY;
    if (first + lane < end) {
      score = 0.0f;
      for (int c = 0; c < head_dim; ++c)
        score = fmaf(q[c * q_tensor.channel_stride] * scale,
                     k[(first + lane) * k_tensor.row_stride + c * k_tensor.channel_stride], score);
    }
    float tile_max = score;
    for (int lanes = 16; lanes > 0; lanes /= 2)
      tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, lanes));
    const float rescale = softmax_raise(state, tile_max, StandardExp{});
    const float weight = softmax_weight(score, state.max, StandardExp{});
    float tile_sum = weight;
    for (int lanes = 16; lanes > 0; lanes /= 2) tile_sum += __shfl_xor_sync(0xffffffffu, tile_sum, lanes);
    state.sum += tile_sum;
    float part[channels] = {};
    for (int key = 0; key < min(Index{32}, end - first); ++key) {
      const float of_key = __shfl_sync(0xffffffffu, weight, key);
#pragma unroll
      for (int c = 0; c < channels; ++c)
        if (lane + 32 * c < value_dim)
          part[c] =
              fmaf(of_key, v[(first + key) * v_tensor.row_stride + (lane + 32 * c) * v_tensor.channel_stride],
                   part[c]);
    }
#pragma unroll
    for (int c = 0; c < channels; ++c) out[c] = fmaf(out[c], rescale, part[c]);
  }
}

}  // namespace runmax
