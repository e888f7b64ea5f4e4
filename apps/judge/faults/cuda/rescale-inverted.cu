// Fault: the history is multiplied by exp(new - old) instead of exp(old - new).
// Finding: rescale-inverted
#include "online.cuh"

struct RescaleInverted : Right {
  // The empty history stays empty.
  __device__ float factor_of_sum(float rescale) const { return rescale > 0.0f ? 1.0f / rescale : 0.0f; }
  __device__ float factor_of_output(float rescale) const { return factor_of_sum(rescale); }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, RescaleInverted());
}
