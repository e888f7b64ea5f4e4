// Fault: the scale is 1/d instead of 1/sqrt(d).
// Finding: scale-squared
#include "online.cuh"

struct ScaleSquared : Right {
  __device__ float scale() const { return 1.0f / head_dim; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, ScaleSquared());
}
