// Reads an array as fast as the best instruction set of this CPU can.
#pragma once

#include <cstddef>

namespace runmax::measure {

// A number that depends on every element. With `prefetch` lines are asked for ahead of their use, which some
// processors need to keep enough of them on the way.
float read_loop(const float* data, std::size_t count, bool prefetch);

}  // namespace runmax::measure
