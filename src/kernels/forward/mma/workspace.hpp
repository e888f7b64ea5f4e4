// How the caller's workspace is cut: images, headers, then the partial results of the splits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/forward/mma/config.hpp"
#include "runmax/problem.hpp"

namespace runmax::mma_sync {

// The compiled head size that serves the problem's.
int dim_for(const Problem& problem);

// Slots of a key tile in the images: those of K, then those of V.
int key_slots(const Problem& problem);
int value_slots(const Problem& problem);

// Offsets in bytes; the images start at 0.
struct WorkspaceParts {
  std::size_t headers = 0, partial_state = 0, partial_out = 0, bytes = 0;
};
WorkspaceParts workspace_parts(const Problem& problem, std::int64_t splits);

}  // namespace runmax::mma_sync
