// Fault: weights meet the V row of the key after theirs.
// Finding: values-shifted
#include "online.cuh"

struct ValuesShifted : Right {
  __device__ float value(const float* v, int n, int j, int c) const {
    return j < n ? v[min(j + 1, n - 1) * head_dim + c] : 0.0f;
  }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, ValuesShifted());
}
