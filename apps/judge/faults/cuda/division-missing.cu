// Fault: the output is never divided by the sum.
// Finding: division-missing
#include "online.cuh"

struct DivisionMissing : Right {
  __device__ float answer(float out, float) const { return out; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, DivisionMissing());
}
