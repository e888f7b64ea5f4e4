// Fault: the operands of both products are rounded to TF32.
// Finding: precision-tf32
#include "online.cuh"

struct PrecisionTf32 : Right {
  // The hardware cuts the low 13 bits off.
  __device__ float operand(float value) const {
    return __uint_as_float(__float_as_uint(value) & 0xffffe000u);
  }
};

extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* o, int n) {
  attend(q, k, v, o, n, PrecisionTf32());
}
