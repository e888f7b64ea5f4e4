// cp.async.bulk, one function per instruction (sm_90).
#pragma once

#include <cstdint>

#include "device/ptx/mbarrier.cuh"

namespace runmax::ptx {

// Copies `bytes` (a multiple of 16) of global memory to shared memory, both 16-byte aligned; completes on
// `barrier`.
__device__ inline void bulk_copy_to_shared(void* shared, const void* global, std::uint32_t bytes,
                                           std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// Orders this thread's ordinary shared-memory stores before later accesses of the async proxy (wgmma, bulk
// copies).
__device__ inline void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace runmax::ptx
