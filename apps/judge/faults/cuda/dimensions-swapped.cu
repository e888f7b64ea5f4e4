// Fault: a lane writes its two dimensions side by side that it holds 32 apart.
// Finding: dimensions-swapped
#include "online.cuh"

struct DimensionsSwapped : Right {
  __device__ int place_of_dimension(int c) const { return c % 32 * 2 + c / 32; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, DimensionsSwapped());
}
