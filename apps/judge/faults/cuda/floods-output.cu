// Fault: every thread prints, again and again.
// Finding: output-flood
#include <cstdio>

#include "online.cuh"

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  for (int line = 0; line < 1000; ++line)
    printf("block %d thread %d line %d\n", blockIdx.x, threadIdx.x, line);
  attend(q, k, v, o, n, Right());
}
