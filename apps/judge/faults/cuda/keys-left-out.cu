// Fault: the second of every three groups of 16 keys is left out.
// Finding: keys-left-out
#include "online.cuh"

struct KeysLeftOut : Right {
  __device__ float times(int key, int) const { return key / 16 % 3 == 1 ? 0.0f : 1.0f; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, KeysLeftOut());
}
