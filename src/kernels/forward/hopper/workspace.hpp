// How the caller's workspace is cut: images, headers, then the partial results of the splits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/forward/hopper/config.hpp"
#include "runmax/problem.hpp"

namespace runmax::hopper {

// The compiled tile that serves the problem's head sizes.
const ForwardTile& tile_for(const Problem& problem);

// Offsets in bytes; the images start at 0.
struct WorkspaceParts {
  std::size_t headers = 0, partial_state = 0, partial_out = 0, bytes = 0;
};
WorkspaceParts workspace_parts(const Problem& problem, std::int64_t splits);

}  // namespace runmax::hopper
