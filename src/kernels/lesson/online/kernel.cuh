// The lesson's online attention: one kernel, 32 floats of state a lane, and no score matrix.
#pragma once

#include <cstdint>

#include "config.hpp"
#include "fold.hpp"

namespace runmax {
namespace lesson {

// Q, K, V, O are packed (n, head_dim); n is a multiple of rows_per_block. `lse` may be null. Block b owns
// query rows [64 b, 64 b + 64), warp w eight of them; of each key tile, lane j owns key j.
//
// Every thread meets every barrier, so shuffles always see a full warp.
template <class Config, class Rule>
__global__ void __launch_bounds__(Config::threads, Config::min_blocks)
    attention_online(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                     float* __restrict__ o, float* __restrict__ lse, std::int64_t n, float scale, Rule rule) {
  constexpr int head_dim = Config::head_dim;
  constexpr int key_tile = Config::key_tile;
  constexpr int rows_per_warp = Config::rows_per_warp;
  constexpr int dims_per_lane = Config::dims_per_lane;
  constexpr unsigned all_lanes = 0xffffffffu;

  __shared__ float q_smem[Config::rows_per_block][head_dim];
  __shared__ float k_smem[key_tile][Config::key_row_floats];
  __shared__ float v_smem[key_tile][Config::value_row_floats];

  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % warp_size;
  const int first_row = thread / warp_size * rows_per_warp;
  const std::int64_t block_row = static_cast<std::int64_t>(blockIdx.x) * Config::rows_per_block;

  const float* q_block = q + block_row * head_dim;
#pragma unroll 4
  for (int e = thread; e < Config::rows_per_block * head_dim; e += Config::threads)
    q_smem[e / head_dim][e % head_dim] = q_block[e];

  SoftmaxState<float> state[rows_per_warp];
  float out[rows_per_warp][dims_per_lane];
#pragma unroll
  for (int r = 0; r < rows_per_warp; ++r) {
    state[r] = rule.begin();
#pragma unroll
    for (int c = 0; c < dims_per_lane; ++c) out[r][c] = 0.0f;
  }

  const std::int64_t tile_count = rule.tiles(n / key_tile);
  for (std::int64_t tile = 0; tile < tile_count; ++tile) {
    const float* k_tile = k + tile * key_tile * head_dim;
    const float* v_tile = v + tile * key_tile * head_dim;
    __syncthreads();  // the previous tile has been read by all
#pragma unroll 4
    for (int e = thread; e < key_tile * head_dim; e += Config::threads) {
      k_smem[e / head_dim][e % head_dim] = k_tile[e];
      v_smem[e / head_dim][e % head_dim] = v_tile[e];
    }
    __syncthreads();  // this tile, and before the first one Q, is in place

#pragma unroll
    for (int r = 0; r < rows_per_warp; ++r) {
      float score = 0.0f;
#pragma unroll 16
      for (int c = 0; c < head_dim; ++c) score += q_smem[first_row + r][c] * k_smem[lane][c];
      score *= scale;

      float tile_max = score;
      for (int distance = warp_size / 2; distance > 0; distance /= 2)
        tile_max = fmaxf(tile_max, __shfl_xor_sync(all_lanes, tile_max, distance));

      const float max_before = state[r].max;
      const float rescale = rule.raise(state[r], tile_max);
      const float weight = rule.weight(score, tile_max, state[r]);

      float tile_sum = rule.counted(weight, score, max_before, rescale);
      for (int distance = warp_size / 2; distance > 0; distance /= 2)
        tile_sum += __shfl_xor_sync(all_lanes, tile_sum, distance);
      state[r].sum += tile_sum;

      const float output_rescale = rule.output_rescale(rescale);
#pragma unroll
      for (int c = 0; c < dims_per_lane; ++c) out[r][c] *= output_rescale;
      const float mixed = rule.mixed(weight, state[r]);
      for (int j = 0; j < key_tile; ++j) {
        const float key_weight = __shfl_sync(all_lanes, mixed, j);
#pragma unroll
        for (int c = 0; c < dims_per_lane; ++c) out[r][c] += key_weight * v_smem[j][c * warp_size + lane];
      }
    }
  }

#pragma unroll
  for (int r = 0; r < rows_per_warp; ++r) {
    const std::int64_t row = block_row + first_row + r;
#pragma unroll
    for (int c = 0; c < dims_per_lane; ++c)
      o[row * head_dim + c * warp_size + lane] = rule.finish(out[r][c], state[r]);
    if (lse != nullptr && lane == 0) lse[row] = softmax_lse(state[r]);
  }
}

}  // namespace lesson
}  // namespace runmax
