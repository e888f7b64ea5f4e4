// LSE of a row whose maximum is an integer in log2.
#pragma once

#include <cmath>

namespace runmax {

// ln(2^max * sum); -inf for a row that saw no key. ln 2 comes in two pieces: max is an integer, and its
// product with the first piece must not round.
__device__ inline float natural_lse(float max, float sum) {
  return sum == 0.0f ? -INFINITY
                     : fmaf(max, 0.693145751953125f, fmaf(max, 1.428606765330187e-06f, logf(sum)));
}

}  // namespace runmax
