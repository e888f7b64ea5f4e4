// Fault: a causal mask is applied although nobody asked for one.
// Finding: causal-unasked
#include "online.cuh"

struct CausalUnasked : Right {
  __device__ bool sees(int i, int key) const { return key <= i; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, CausalUnasked());
}
