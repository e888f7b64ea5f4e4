// setmaxnreg, named barriers, dependent launch and fast exp2, one function per instruction.
#pragma once

#include <cstdint>

namespace runmax::ptx {

// setmaxnreg (sm_90a): the warpgroup gives registers back, or takes more.
template <int registers>
__device__ inline void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ inline void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// barrier.sync id, n: `threads` threads meet at named barrier `id` (0..15; 0 is __syncthreads).
__device__ inline void named_barrier_sync(std::uint32_t id, std::uint32_t threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// griddepcontrol (sm_90): the next kernel of the stream may be launched from here on; and its wait until
// every grid it depends on has completed and its memory is visible.
__device__ inline void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ inline void wait_for_dependencies() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// ex2.approx.ftz.f32: 2^x to 2 ulp; -inf gives 0, NaN stays NaN, subnormal results are 0.
__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x to one ulp, for x well inside the range of FP32.
__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return fmaf(y, fmaf(-x, y, 1.0f), y);
}

}  // namespace runmax::ptx
