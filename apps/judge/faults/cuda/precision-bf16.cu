// Fault: the operands of both products are rounded to bf16.
// Finding: precision-bf16
#include <cuda_bf16.h>

#include "online.cuh"

struct PrecisionBf16 : Right {
  __device__ float operand(float value) const { return __bfloat162float(__float2bfloat16_rn(value)); }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, PrecisionBf16());
}
