// mma.sync on fp16 operands with FP32 accumulators, one function per instruction.
//
// With g = lane / 4 and t = lane % 4, a lane of the warp holds of the 16 x 8 accumulator d: rows g (d[0],
// d[1]) and g + 8 (d[2], d[3]), columns 2t and 2t + 1. Of an operand it holds pairs of halves, the lower k in
// the lower half: a[0] and a[1] are rows g and g + 8 at k = 2t, b[0] is column g at k = 2t; the next
// registers (a[2], a[3], b[1]) are the same at k + 8. So the deeper instruction is two of the other one.
#pragma once

#include <cstdint>

namespace runmax::ptx {

// d += a b, 16 x 8 and 8 deep (sm_75).
__device__ inline void mma_m16n8k8(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b0) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

// d += a b, 16 x 8 and 16 deep (sm_80).
__device__ inline void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace runmax::ptx
