// Seeded numbers that are the same on every platform and compiler (C++17).
#pragma once

#include <cstdint>

namespace runmax {
namespace inputs {

// Counter-based: number `i` of a stream is a hash of (seed, stream, i), so streams are independent and none
// of them is ever walked to reach another. Only integers and exactly rounded operations are used, no <random>
// and no libm.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0)
      : key_(mix(mix(seed + golden) ^ (stream * 0xd1342543de82ef95ull + golden))) {}

  // 64 uniform bits: SplitMix64's output function of a Weyl sequence.
  std::uint64_t bits() { return mix(key_ + golden * ++counter_); }

  // Uniform in [lo, hi) up to the rounding of the result.
  float uniform(float lo, float hi) {
    const double unit = static_cast<double>(bits() >> 11) * 0x1p-53;
    return static_cast<float>(lo + (static_cast<double>(hi) - lo) * unit);
  }

  // Uniform in {0, ..., count - 1}; count >= 1. The bias is below count * 2^-32.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(static_cast<double>(bits() >> 11) * 0x1p-53 *
                                     static_cast<double>(count));
  }

  // Standard normal to the accuracy of twelve uniforms' sum: mean 0, variance 1, |z| < 6. The sum is an
  // integer, so the one rounding is that to float.
  float normal() {
    std::int64_t sum = 0;
    for (int word = 0; word < 6; ++word) {
      const std::uint64_t b = bits();
      sum += static_cast<std::int64_t>(b >> 32) + static_cast<std::int64_t>(b & 0xffffffffu);
    }
    constexpr std::int64_t twice_mean = std::int64_t{12} * 0xffffffff;
    return static_cast<float>(static_cast<double>(2 * sum - twice_mean) * 0x1p-33);
  }

 private:
  static constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ull;

  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace inputs
}  // namespace runmax
