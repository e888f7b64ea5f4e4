// Fault: Q is scaled in place.
// Finding: input-written
#include "online.cuh"

struct AlreadyScaled : Right {
  __device__ float scale() const { return 1.0f; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  // Every block scales its own rows, which no other block reads.
  float* scaled = const_cast<float*>(q);
  for (int e = threadIdx.x; e < rows_per_block * head_dim; e += threads) {
    const int at = blockIdx.x * rows_per_block * head_dim + e;
    if (at < n * head_dim) scaled[at] *= 0.125f;
  }
  __syncthreads();
  attend(q, k, v, o, n, AlreadyScaled());
}
