// Fault: the sum keeps its old scale when the maximum moves.
// Finding: sum-not-rescaled
#include "online.cuh"

struct SumNotRescaled : Right {
  __device__ float factor_of_sum(float) const { return 1.0f; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, SumNotRescaled());
}
