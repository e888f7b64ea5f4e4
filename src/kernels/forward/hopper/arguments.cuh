// What the hopper kernels are launched with.
#pragma once

#include <cstdint>

#include "device/planes/arguments.cuh"
#include "kernels/forward/hopper/config.hpp"

namespace runmax::hopper {

struct ForwardArguments : planes::ForwardArguments<TileHeader> {
  std::uint32_t items_per_head;  // work items, with the one that has no rows
  std::uint32_t items_per_turn;  // neighbours that a block takes one after the other: 1 or 2
};

}  // namespace runmax::hopper
