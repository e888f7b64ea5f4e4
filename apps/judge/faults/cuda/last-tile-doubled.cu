// Fault: a last tile that is not full is moved back to be full, over keys that were taken already.
// Finding: last-tile-doubled
#include "online.cuh"

struct LastTileDoubled : Right {
  __device__ float times(int key, int n) const {
    const int full = n / key_tile * key_tile;
    return n > key_tile && key >= n - key_tile && key < full && full != n ? 2.0f : 1.0f;
  }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, LastTileDoubled());
}
