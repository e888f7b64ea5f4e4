// Fault: the scale is that of the padded row in shared memory, 1/sqrt(65).
// Finding: scale-of-padded-head-dim
#include "online.cuh"

struct ScaleOfPaddedHeadDim : Right {
  __device__ float scale() const { return 1.0f / sqrtf(head_dim + 1.0f); }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, ScaleOfPaddedHeadDim());
}
