// Fault: every fifth key is counted twice.
// Finding: keys-counted-twice
#include "online.cuh"

struct KeysCountedTwice : Right {
  __device__ float times(int key, int) const { return key % 5 == 0 ? 2.0f : 1.0f; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, KeysCountedTwice());
}
