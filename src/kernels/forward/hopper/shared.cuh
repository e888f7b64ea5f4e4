// Shared memory of a block of the forward kernel, and its ring of slots.
#pragma once

#include <cstdint>

#include "device/ptx/mbarrier.cuh"
#include "kernels/forward/hopper/config.hpp"

namespace runmax::hopper {

template <ForwardTile config>
struct Shared {
  // (plane, column block of 64, block_q rows, 64), swizzled; each consumer writes and reads its own 64 rows.
  unsigned char q_smem[query_bytes(config)];
  unsigned char slots[config.slots][slot_bytes];
  TileHeader headers[config.header_stages];
  Barriers barriers;  // full: a slot's bytes have landed; empty: every consumer warp has read it
  int suspicious[4 * config.consumers];  // by warp: some row of the work item may have to be computed again
  float query_unit[config.block_q()];    // q = planes * query_unit, a power of two, row by row
};

// Position in the ring of slots; the parity flips each time round.
template <int slots>
struct RingPosition {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    if (++slot == slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

// The two planes of an operand in the ring.
struct OperandPlanes {
  const unsigned char* hi;
  const unsigned char* lo;
};

template <ForwardTile config>
__device__ OperandPlanes wait_operand(Shared<config>& shared, RingPosition<config.slots>& ring,
                                      const char* fact) {
  OperandPlanes planes;
  ptx::mbarrier_wait(&shared.barriers.full[ring.slot], ring.parity, fact);
  planes.hi = shared.slots[ring.slot];
  planes.lo = planes.hi + plane_bytes(config.dim);
  ring.advance();
  if constexpr (config.slots_per_operand() == 2) {
    ptx::mbarrier_wait(&shared.barriers.full[ring.slot], ring.parity, fact);
    planes.lo = shared.slots[ring.slot];
    ring.advance();
  }
  return planes;
}

// Every warp says that it has read the operand's slots; `ring` stands where the operand began.
template <ForwardTile config>
__device__ void release_operand(Shared<config>& shared, RingPosition<config.slots>& ring, int lane) {
#pragma unroll
  for (int part = 0; part < config.slots_per_operand(); ++part) {
    if (lane == 0) ptx::mbarrier_arrive(&shared.barriers.empty[ring.slot]);
    ring.advance();
  }
}

}  // namespace runmax::hopper
