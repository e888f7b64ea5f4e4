// Random fp16 numbers inside a kernel. Products of zeros, or of equal numbers, draw less power than real data
// do and run faster.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace runmax::measure {

// A pair of normally distributed halves; `state` is not 0 and moves on.
__device__ inline std::uint32_t random_halves(std::uint32_t& state) {
  const auto uniform = [&] {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return (static_cast<float>(state >> 8) + 0.5f) * 0x1p-24f;
  };
  const float radius = sqrtf(-2.0f * __logf(uniform())), angle = 6.2831853f * uniform();
  const __half2 pair = __floats2half2_rn(radius * __cosf(angle), radius * __sinf(angle));
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

}  // namespace runmax::measure
