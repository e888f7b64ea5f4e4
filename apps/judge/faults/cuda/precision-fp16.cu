// Fault: the operands of both products are rounded to fp16.
// Finding: precision-fp16
#include <cuda_fp16.h>

#include "online.cuh"

struct PrecisionFp16 : Right {
  __device__ float operand(float value) const { return __half2float(__float2half_rn(value)); }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, PrecisionFp16());
}
