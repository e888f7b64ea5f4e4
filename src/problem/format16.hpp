// fp16 and bf16 by the definition of the formats (C++17), one value at a time: for the tools and for what is
// not worth a vector loop. It shares nothing with the kernels' conversions, which are checked against it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace runmax {

// A binary format of 16 bits: a sign, an exponent and a fraction.
struct Format16 {
  int exponent_bits;
  int fraction_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t infinite() const { return ((1u << exponent_bits) - 1) << fraction_bits; }
};

constexpr Format16 format_f16{5, 10};
constexpr Format16 format_bf16{8, 7};

// The value of an encoding; every one is a float.
inline float decode16(Format16 f, std::uint16_t bits) {
  const std::uint32_t fraction = bits & ((1u << f.fraction_bits) - 1);
  const std::uint32_t exponent = (bits & 0x7fffu) >> f.fraction_bits;
  const float sign = bits & 0x8000u ? -1.0f : 1.0f;
  if (exponent == f.infinite() >> f.fraction_bits)
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  const int shift = static_cast<int>(exponent == 0 ? 1 : exponent) - f.bias() - f.fraction_bits;
  const std::uint32_t significand = fraction | (exponent == 0 ? 0u : 1u << f.fraction_bits);
  return sign * static_cast<float>(std::ldexp(static_cast<double>(significand), shift));
}

// The nearest encoding, ties to even; what rounds beyond the largest number is infinite.
inline std::uint16_t encode16(Format16 f, double value) {
  const std::uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | f.infinite() | 1u << (f.fraction_bits - 1));
  const double size = std::abs(value);
  if (size == 0) return static_cast<std::uint16_t>(sign);
  int exponent = 0;
  std::frexp(size, &exponent);  // size < 2^exponent
  const int lowest = 1 - f.bias();
  // The spacing of the format at this size, and the size in multiples of it; both steps are exact.
  const int spacing = (exponent - 1 > lowest ? exponent - 1 : lowest) - f.fraction_bits;
  if (std::isinf(size) || exponent > f.bias() + 2) return static_cast<std::uint16_t>(sign | f.infinite());
  const double steps = std::nearbyint(std::ldexp(size, -spacing));
  // Below the smallest normal number the steps are the encoding; above, the leading one is the exponent's.
  const auto whole = static_cast<std::uint32_t>(steps);
  const int field = spacing + f.fraction_bits - lowest;
  const std::uint32_t bits = (static_cast<std::uint32_t>(field) << f.fraction_bits) + whole;
  return static_cast<std::uint16_t>(sign | (bits < f.infinite() ? bits : f.infinite()));
}

}  // namespace runmax
