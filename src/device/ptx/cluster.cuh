// Clusters of blocks: their barrier and each other's shared memory, one function per instruction (sm_90).
#pragma once

#include <cstdint>

#include "device/ptx/mbarrier.cuh"

namespace runmax::ptx {

// barrier.cluster: every thread of the cluster arrives and waits once. Relaxed: initialised barriers
// (fence_mbarrier_init) are visible to all after the wait, other memory need not be.
__device__ inline void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

// mapa: the address of `shared`, of this block, in the block of that rank.
__device__ inline std::uint32_t address_in_block(const void* shared, std::uint32_t rank) {
  std::uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(shared)), "r"(rank));
  return address;
}

// st.async: 16 bytes to another block's shared memory, counted by a barrier there.
__device__ inline void store_async(std::uint32_t address, float4 x, std::uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
          address),
      "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(barrier)
      : "memory");
}

}  // namespace runmax::ptx
