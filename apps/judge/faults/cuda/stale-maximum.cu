// Fault: a tile is weighed against the maximum from before it.
// Finding: stale-maximum
#include "online.cuh"

struct StaleMaximum : Right {
  // The first tile has no maximum before it, and takes its own.
  __device__ float subtracted(float old_max, float tile_max, float) const {
    return old_max == -INFINITY ? tile_max : old_max;
  }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, StaleMaximum());
}
