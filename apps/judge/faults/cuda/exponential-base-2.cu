// Fault: exp2 takes the place of exp, the scores are not multiplied by log2(e).
// Finding: exponential-base-2
#include "online.cuh"

struct ExponentialBase2 : Right {
  __device__ float weight(float score, float max) const { return exp2f(score - max); }
  // The factor that belongs to exp2.
  __device__ float factor_of_sum(float rescale) const { return exp2f(logf(rescale)); }
  __device__ float factor_of_output(float rescale) const { return factor_of_sum(rescale); }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, ExponentialBase2());
}
