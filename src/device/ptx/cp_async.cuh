// cp.async, one function per instruction (sm_80).
#pragma once

#include <cstdint>

namespace runmax::ptx {

// Copies 16 bytes of global memory to shared memory past L1, both 16-byte aligned; belongs to this thread's
// next group.
__device__ inline void cp_async_16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(__cvta_generic_to_global(global))
               : "memory");
}

__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `pending` of this thread's groups are in flight; other threads see the bytes after a
// barrier.
template <int pending>
__device__ inline void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace runmax::ptx
