// Fault: neither the sum nor the output is rescaled when the maximum moves.
// Finding: nothing-rescaled
#include "online.cuh"

struct NothingRescaled : Right {
  __device__ float factor_of_sum(float) const { return 1.0f; }
  __device__ float factor_of_output(float) const { return 1.0f; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, NothingRescaled());
}
