// Fault: two neighbouring rows of the output are exchanged.
// Finding: rows-swapped
#include "online.cuh"

struct RowsSwapped : Right {
  __device__ int place_of_row(int i, int n) const { return (i ^ 1) < n ? i ^ 1 : i; }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, RowsSwapped());
}
