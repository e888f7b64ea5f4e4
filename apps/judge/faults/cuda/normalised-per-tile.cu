// Fault: each tile is divided by the sum so far, and nothing is divided at the end.
// Finding: normalised-per-tile
#include "online.cuh"

struct NormalisedPerTile : Right {
  __device__ float mixed(float weight, float sum) const { return weight / sum; }
  __device__ float answer(float out, float) const { return out; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, NormalisedPerTile());
}
