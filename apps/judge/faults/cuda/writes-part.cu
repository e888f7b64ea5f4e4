// Fault: rows of a last block that is not full are never written.
// Finding: output-unwritten
#include "online.cuh"

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  if ((blockIdx.x + 1) * rows_per_block <= n) attend(q, k, v, o, n, Right());
}
