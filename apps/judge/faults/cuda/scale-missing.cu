// Fault: the scores are not scaled.
// Finding: scale-missing
#include "online.cuh"

struct ScaleMissing : Right {
  __device__ float scale() const { return 1.0f; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, ScaleMissing());
}
