// Fault: the answer is added to what the output held, as if that were zero.
// Finding: depends-on-old-memory | output-unwritten
#include "online.cuh"

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  __shared__ float before[rows_per_block * head_dim / 8];
  // Eight columns suffice to show it.
  for (int e = threadIdx.x; e < rows_per_block * head_dim / 8; e += threads) {
    const int row = blockIdx.x * rows_per_block + e / 8;
    before[e] = row < n ? o[row * head_dim + e % 8] : 0.0f;
  }
  __syncthreads();
  attend(q, k, v, o, n, Right());
  __syncthreads();
  for (int e = threadIdx.x; e < rows_per_block * head_dim / 8; e += threads) {
    const int row = blockIdx.x * rows_per_block + e / 8;
    if (row < n) o[row * head_dim + e % 8] += before[e];
  }
}
