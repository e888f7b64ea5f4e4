// Fault: a tile is weighed against its own maximum instead of the running one.
// Finding: own-maximum
#include "online.cuh"

struct OwnMaximum : Right {
  __device__ float subtracted(float, float tile_max, float) const { return tile_max; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, OwnMaximum());
}
