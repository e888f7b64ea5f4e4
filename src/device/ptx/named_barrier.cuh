// barrier.sync with its numbers known to the compiler, which then reserves no other barrier.
#pragma once

namespace runmax::ptx {

// `threads` threads meet at named barrier `id` (0..15; 0 is __syncthreads).
template <int id, int threads>
__device__ inline void block_barrier_sync() {
  asm volatile("barrier.sync %0, %1;" ::"n"(id), "n"(threads) : "memory");
}

}  // namespace runmax::ptx
