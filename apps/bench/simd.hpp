// The instruction set that kernels and probes run in.
#pragma once

#include <string>

#include "runmax/status.hpp"

namespace runmax::bench {

// From now on this process uses only the instruction set of this name ("AVX2", "SSE4", ...), in the kernels
// and in the probes. An unknown one, or one that this processor lacks, is refused with those that there are.
Status force_simd(const std::string& name);

}  // namespace runmax::bench
