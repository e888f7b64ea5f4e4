// cp.async (sm_80), one function per instruction: copies that do not pass through registers.
#pragma once

#include <cstdint>

#include "device/ptx/mbarrier.cuh"

namespace runmax::ptx {

// `bytes` (16 or less) of global memory to shared memory, and zeros up to 16; both sides 16-byte aligned.
__device__ inline void copy_async_16(void* shared, const void* global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(__cvta_generic_to_global(global)), "r"(bytes)
               : "memory");
}

// Four bytes, or a zero where `bytes` is 0; both sides 4-byte aligned.
__device__ inline void copy_async_4(void* shared, const void* global, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)),
               "l"(__cvta_generic_to_global(global)), "r"(bytes)
               : "memory");
}

__device__ inline void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `pending` of this thread's groups are in flight.
template <int pending>
__device__ inline void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace runmax::ptx
