// Fault: keys beyond the last one are given the score 0, not -inf, and enter the sum.
// Finding: padding-counted
#include "online.cuh"

struct PaddingCounted : Right {
  __device__ int last(int n) const { return (n + key_tile - 1) / key_tile * key_tile; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, PaddingCounted());
}
