// Fault: one element before the first of the output is written.
// Finding: out-of-bounds
#include "online.cuh"

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, Right());
  if (blockIdx.x == 0 && threadIdx.x == 0) o[-1] = 0.0f;
}
