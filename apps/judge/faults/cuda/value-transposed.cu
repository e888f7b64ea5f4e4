// Fault: V is read as if it were stored channel by channel.
// Finding: value-transposed
#include "online.cuh"

struct ValueTransposed : Right {
  __device__ float value(const float* v, int n, int j, int c) const { return j < n ? v[c * n + j] : 0.0f; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, ValueTransposed());
}
