// Fault: a warp reads a tile before the others have written it: one barrier is missing.
// Finding: unstable-output | wrong-after-calls
#include "online.cuh"

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  // The mistake needs a kernel of its own: the barrier between loading a tile and using it is not there.
  __shared__ float k_smem[key_tile][head_dim + 1], v_smem[key_tile][head_dim];
  const int i = blockIdx.x * rows_per_block + threadIdx.x;
  float max = -INFINITY, sum = 0.0f, out[head_dim] = {};
  for (int tile = 0; tile < n; tile += key_tile) {
    for (int e = threadIdx.x; e < key_tile * head_dim; e += blockDim.x) {
      const int j = tile + e / head_dim, c = e % head_dim;
      k_smem[e / head_dim][c] = j < n ? k[j * head_dim + c] : 0.0f;
      v_smem[e / head_dim][c] = j < n ? v[j * head_dim + c] : 0.0f;
    }
    for (int j = 0; threadIdx.x < rows_per_block && i < n && j < key_tile && tile + j < n; ++j) {
      float dot = 0.0f;
      for (int c = 0; c < head_dim; ++c) dot += q[i * head_dim + c] * k_smem[j][c];
      const float score = dot * 0.125f, new_max = fmaxf(max, score), rescale = expf(max - new_max);
      const float weight = expf(score - new_max);
      max = new_max;
      sum = sum * rescale + weight;
      for (int c = 0; c < head_dim; ++c) out[c] = out[c] * rescale + weight * v_smem[j][c];
    }
  }
  if (threadIdx.x < rows_per_block && i < n)
    for (int c = 0; c < head_dim; ++c) o[i * head_dim + c] = out[c] / sum;
}
