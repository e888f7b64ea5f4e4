// mbarrier.*, one function per instruction (sm_90). Shared addresses are 32-bit, from shared_address().
#pragma once

#include <cstdint>
#include <cstdio>

namespace runmax::ptx {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void mbarrier_init(std::uint64_t* barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}

// Makes initialised barriers visible to the async proxy and the cluster.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// One arrival that also announces `bytes` of asynchronous copies.
__device__ inline void mbarrier_arrive_expect_tx(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}

__device__ inline void mbarrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// True once the phase of that parity has completed; acquires what was released before it.
__device__ inline bool mbarrier_try_wait_parity(std::uint64_t* barrier, std::uint32_t parity) {
  std::uint32_t done;
  asm volatile(
      "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

// Waits for a phase. With RUNMAX_WAIT_LIMIT (polls) defined, a wait that lasts too long names itself and
// traps: a hang on a GPU tells nothing.
__device__ inline void mbarrier_wait(std::uint64_t* barrier, std::uint32_t parity, const char* fact) {
#if defined(RUNMAX_WAIT_LIMIT)
  for (long long polls = 0; !mbarrier_try_wait_parity(barrier, parity); ++polls)
    if (polls > RUNMAX_WAIT_LIMIT) {
      printf("mbarrier_wait: %s, block %d, thread %d, parity %u: waited too long\n", fact,
             static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x), parity);
      __trap();
    }
#else
  (void)fact;
  while (!mbarrier_try_wait_parity(barrier, parity)) {
  }
#endif
}

}  // namespace runmax::ptx
