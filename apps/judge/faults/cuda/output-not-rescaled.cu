// Fault: the output keeps its old scale when the maximum moves.
// Finding: output-not-rescaled
#include "online.cuh"

struct OutputNotRescaled : Right {
  __device__ float factor_of_output(float) const { return 1.0f; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, OutputNotRescaled());
}
