// FP32 numbers as the sum of two fp16 planes, after scaling by a power of two.
#pragma once

#include <cuda_fp16.h>

namespace runmax::tile {

// Scaled operands reach up to 2^15: fp16 ends at 65504, and the low plane of a number 2^-24 below still has
// its bits.
inline constexpr int plane_exponent = 15;

// The smallest exponent that a scale is made from; rows and tiles below it keep absolute precision instead.
inline constexpr int smallest_exponent = -100;

// Queries and keys below 2^40 cannot make a score that leaves FP32 in log2; beyond it the rows are looked at
// again.
inline constexpr int suspicious_exponent = 40;

// e with |x| < 2^e for a finite x; a tiny x is treated as 2^-126, and 0 as less than anything.
inline constexpr int exponent_of_zero = -150;
__device__ inline int exponent_above(float x) {
  return x == 0.0f ? exponent_of_zero : static_cast<int>(__float_as_uint(x) >> 23 & 0xff) - 126;
}

// 2^n for an n that FP32 has: -126 to 127.
__device__ inline float power_of_2(int n) { return __uint_as_float(static_cast<unsigned>(n + 127) << 23); }

// 2^n as two factors, since n may lie outside FP32's own exponents.
struct Power2 {
  static constexpr int largest_exponent = 252;  // |n| at most

  float a, b;
  __device__ explicit Power2(int n) {
    a = __uint_as_float(static_cast<unsigned>(n / 2 + 127) << 23);
    b = __uint_as_float(static_cast<unsigned>(n - n / 2 + 127) << 23);
  }
  __device__ float times(float x) const { return x * a * b; }
};

struct Split {
  __half hi, lo;
};

// hi + lo = x to 2^-22 of x, or to 2^-25 where x is small.
__device__ inline Split split(float x) {
  const __half hi = __float2half_rn(x);
  return {hi, __float2half_rn(x - __half2float(hi))};
}

// Eight neighbouring elements of both planes, 16 bytes each.
struct SplitPiece {
  uint4 hi, lo;
};

__device__ inline SplitPiece split_piece(const float (&x)[8]) {
  SplitPiece piece;
  __half* hi = reinterpret_cast<__half*>(&piece.hi);
  __half* lo = reinterpret_cast<__half*>(&piece.lo);
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    const Split s = split(x[c]);
    hi[c] = s.hi;
    lo[c] = s.lo;
  }
  return piece;
}

}  // namespace runmax::tile
