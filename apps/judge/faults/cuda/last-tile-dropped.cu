// Fault: a last tile that is not full is left out.
// Finding: last-tile-dropped
#include "online.cuh"

struct LastTileDropped : Right {
  __device__ int last(int n) const { return n / key_tile * key_tile; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, LastTileDropped());
}
