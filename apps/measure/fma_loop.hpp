// A loop of fused multiply-adds in the best instruction set of this CPU.
#pragma once

#include <cstdint>

namespace runmax::measure {

struct FmaWork {
  double flops = 0;
  float value = 0;  // depends on every operation, so that none can be left out
};

// Runs `rounds` rounds on the calling thread.
FmaWork fma_loop(std::int64_t rounds);

}  // namespace runmax::measure
