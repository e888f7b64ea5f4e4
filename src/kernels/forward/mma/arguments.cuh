// What the mma kernels are launched with.
#pragma once

#include "device/planes/arguments.cuh"
#include "kernels/forward/mma/config.hpp"

namespace runmax::mma_sync {

struct ForwardArguments : planes::ForwardArguments<TileHeader> {
  int key_slots, value_slots;  // of a key tile's image

  __device__ int slots_per_tile() const { return key_slots + value_slots; }
};

}  // namespace runmax::mma_sync
