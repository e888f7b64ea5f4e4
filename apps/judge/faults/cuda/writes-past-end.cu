// Fault: rows beyond the last one are written, up to a full block.
// Finding: out-of-bounds
#include "online.cuh"

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, Right());
  for (int e = threadIdx.x; e < rows_per_block * head_dim; e += threads) {
    const int at = blockIdx.x * rows_per_block * head_dim + e;
    if (at >= n * head_dim) o[at] = 0.0f;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) o[n * head_dim] = 0.0f;
}
