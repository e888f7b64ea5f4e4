// Fault: K is read as if it were stored channel by channel.
// Finding: key-transposed
#include "online.cuh"

struct KeyTransposed : Right {
  __device__ float key(const float* k, int n, int j, int c) const { return j < n ? k[c * n + j] : 0.0f; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, KeyTransposed());
}
