// The engine's exponential over arrays, in the instruction set that Highway's dispatch picks.
#pragma once

#include <cstddef>

namespace runmax::bench {

// y[i] = 2^(scale * x[i]) for x[i] <= 0 < scale; count is a multiple of 64.
void engine_exp2(const float* x, float scale, float* y, std::size_t count);

}  // namespace runmax::bench
