// The lesson's naive attention: scores, softmax and weighted sum as three kernels that meet in global memory.
#pragma once

#include <cstdint>

#include "../../../../include/runmax/online_softmax.hpp"
#include "config.hpp"

namespace runmax {
namespace lesson {

// scores[i, j] = scale * q[i] . k[j], 16 x 16 a block. Q and K are packed (n, head_dim), scores (n, n).
// Thread (x, y) computes query y, key x.
template <class Config>
__global__ void __launch_bounds__(Config::threads)
    naive_scores(const float* __restrict__ q, const float* __restrict__ k, float* __restrict__ scores,
                 std::int64_t n, float scale) {
  constexpr int head_dim = Config::head_dim;
  constexpr int tile = Config::tile;
  __shared__ float q_smem[tile][tile];
  __shared__ float k_smem[tile][tile + Config::key_padding];  // (channel, key): transposed

  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const std::int64_t query = static_cast<std::int64_t>(blockIdx.y) * tile + y;
  const std::int64_t first_key = static_cast<std::int64_t>(blockIdx.x) * tile;

  float dot = 0.0f;
  for (int channel = 0; channel < head_dim; channel += tile) {
    q_smem[y][x] = q[query * head_dim + channel + x];
    // Neighbouring threads read neighbouring channels of one key; the store does the transposing.
    k_smem[x][y] = k[(first_key + y) * head_dim + channel + x];
    __syncthreads();
    for (int c = 0; c < tile; ++c) dot += q_smem[y][c] * k_smem[c][x];
    __syncthreads();
  }
  scores[query * n + first_key + x] = dot * scale;
}

// weights[i, j] = exp(scores[i, j] - max of row i), one row a block: one pass for the max, one to write.
// `lse` may be null; only if it is wanted are the weights summed here.
template <class Config>
__global__ void __launch_bounds__(Config::threads)
    naive_softmax(const float* __restrict__ scores, float* __restrict__ weights, float* __restrict__ lse,
                  std::int64_t n) {
  constexpr int warps = Config::threads / 32;
  constexpr unsigned all_lanes = 0xffffffffu;
  __shared__ float warp_smem[warps];

  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x);
  const float* row_scores = scores + row * n;
  float* row_weights = weights + row * n;

  SoftmaxState<float> state;
  for (std::int64_t j = thread; j < n; j += Config::threads) state.max = fmaxf(state.max, row_scores[j]);
  for (int distance = 16; distance > 0; distance /= 2)
    state.max = fmaxf(state.max, __shfl_xor_sync(all_lanes, state.max, distance));
  if (thread % 32 == 0) warp_smem[thread / 32] = state.max;
  __syncthreads();
  for (int w = 0; w < warps; ++w) state.max = fmaxf(state.max, warp_smem[w]);

  for (std::int64_t j = thread; j < n; j += Config::threads) {
    const float weight = softmax_weight(row_scores[j], state.max, StandardExp());
    row_weights[j] = weight;
    state.sum += weight;
  }
  if (lse == nullptr) return;
  for (int distance = 16; distance > 0; distance /= 2)
    state.sum += __shfl_xor_sync(all_lanes, state.sum, distance);
  __syncthreads();  // every thread has read the maxima
  if (thread % 32 == 0) warp_smem[thread / 32] = state.sum;
  __syncthreads();
  if (thread != 0) return;
  state.sum = 0.0f;
  for (int w = 0; w < warps; ++w) state.sum += warp_smem[w];
  lse[row] = softmax_lse(state);
}

// o[i, c] = sum_j weights[i, j] v[j, c] / sum_j weights[i, j], 16 x 16 a block. Thread (x, y) computes query
// y, channel x. The weights pass through shared memory anyway, so the row sum is taken on the way: each
// thread adds the ones that it loads, and 16 threads of a row add up.
template <class Config>
__global__ void __launch_bounds__(Config::threads)
    naive_weighted_sum(const float* __restrict__ weights, const float* __restrict__ v, float* __restrict__ o,
                       std::int64_t n) {
  constexpr int head_dim = Config::head_dim;
  constexpr int tile = Config::tile;
  constexpr unsigned all_lanes = 0xffffffffu;
  __shared__ float p_smem[tile][tile];
  __shared__ float v_smem[tile][tile];

  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const std::int64_t query = static_cast<std::int64_t>(blockIdx.y) * tile + y;
  const int channel = static_cast<int>(blockIdx.x) * tile + x;

  float out = 0.0f;
  float row_sum = 0.0f;
  for (std::int64_t key = 0; key < n; key += tile) {
    const float weight = weights[query * n + key + x];
    row_sum += weight;
    p_smem[y][x] = weight;
    v_smem[y][x] = v[(key + y) * head_dim + channel];
    __syncthreads();
    for (int j = 0; j < tile; ++j) out += p_smem[y][j] * v_smem[j][x];
    __syncthreads();
  }
  // A warp holds two rows of 16 threads; these distances stay inside a row.
  for (int distance = tile / 2; distance > 0; distance /= 2)
    row_sum += __shfl_xor_sync(all_lanes, row_sum, distance);
  // The largest score weighs 1, so a sum of zero is a row without a score above -inf.
  o[query * head_dim + channel] = row_sum == 0.0f ? 0.0f : out / row_sum;
}

}  // namespace lesson
}  // namespace runmax
