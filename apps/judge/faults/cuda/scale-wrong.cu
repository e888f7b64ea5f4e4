// Fault: the scale is 0.1.
// Finding: scale-wrong
#include "online.cuh"

struct ScaleWrong : Right {
  __device__ float scale() const { return 0.1f; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, ScaleWrong());
}
