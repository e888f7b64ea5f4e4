// Fault: the answer is computed once for each shape.
// Finding: replayed-output
#include "online.cuh"

// An earlier answer for up to 1088 rows, and what it was computed for. It lives as long as the module.
constexpr int most_rows = 1088;
__device__ float remembered[most_rows * head_dim];
__device__ int known_n[most_rows / rows_per_block];

// Each block has its own memory of what it knows, as blocks run in any order.
__device__ void copy_block(float* to, const float* from, int n) {
  for (int e = threadIdx.x; e < rows_per_block * head_dim; e += threads) {
    const int at = blockIdx.x * rows_per_block * head_dim + e;
    if (at < n * head_dim) to[at] = from[at];
  }
}

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  if (n > most_rows) return attend(q, k, v, o, n, Right());
  const bool known = known_n[blockIdx.x] == n;
  __syncthreads();
  if (known) return copy_block(o, remembered, n);
  attend(q, k, v, o, n, Right());
  __syncthreads();
  copy_block(remembered, o, n);
  if (threadIdx.x == 0) {
    known_n[blockIdx.x] = n;
  }
}
