// The random numbers: the same on every platform, independent between streams, and distributed as they say.
#include "inputs/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>

#include "inputs/stream.hpp"

namespace runmax::inputs {
namespace {

TEST(Random, BitsAreFixedForEver) {
  // Problem texts in bug reports and records mean these numbers.
  Random random(7, 3);
  EXPECT_EQ(random.bits(), 0xbfe59f32f45106cdull);
  EXPECT_EQ(random.bits(), 0x18496100d245161ull);
  const float normal = Random(7, 3).normal(), uniform = Random(7, 3).uniform(-1, 1);
  std::uint32_t normal_bits = 0, uniform_bits = 0;
  std::memcpy(&normal_bits, &normal, 4);
  std::memcpy(&uniform_bits, &uniform, 4);
  EXPECT_EQ(normal_bits, 0xbeb0c0c8u);
  EXPECT_EQ(uniform_bits, 0x3eff967du);
}

TEST(Random, NormalHasTheMomentsOfANormal) {
  Random random(1);
  constexpr int count = 200000;
  double sum = 0, square = 0, fourth = 0, largest = 0;
  int beyond_two = 0;
  for (int i = 0; i < count; ++i) {
    const double z = random.normal();
    sum += z;
    square += z * z;
    fourth += z * z * z * z;
    largest = std::max(largest, std::abs(z));
    beyond_two += std::abs(z) > 2;
  }
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(square / count, 1, 0.02);
  EXPECT_NEAR(fourth / count, 2.9, 0.1);  // 3 - 6/5/12 for a sum of twelve uniforms
  EXPECT_NEAR(static_cast<double>(beyond_two) / count, 0.0455, 0.003);
  EXPECT_GT(largest, 3.5);
  EXPECT_LT(largest, 6);
}

TEST(Random, NormalUsesEveryBitOfAFloat) {
  // A number on a coarse grid would be exact in two half-precision planes and hide their rounding.
  Random random(2);
  int odd = 0;
  for (int i = 0; i < 1000; ++i) {
    const float z = random.normal();
    std::uint32_t bits = 0;
    std::memcpy(&bits, &z, 4);
    odd += static_cast<int>(bits & 1);
  }
  EXPECT_GT(odd, 400);
  EXPECT_LT(odd, 600);
}

TEST(Random, UniformFillsItsRangeAndBelowItsCount) {
  Random random(3);
  float low = 1, high = 0;
  std::set<std::int64_t> seen;
  for (int i = 0; i < 10000; ++i) {
    const float value = random.uniform(0.5f, 1.0f);
    low = std::min(low, value);
    high = std::max(high, value);
    const std::int64_t below = random.below(7);
    ASSERT_GE(below, 0);
    ASSERT_LT(below, 7);
    seen.insert(below);
  }
  EXPECT_NEAR(low, 0.5, 1e-3);
  EXPECT_NEAR(high, 1.0, 1e-3);
  EXPECT_GE(low, 0.5f);
  EXPECT_LE(high, 1.0f);
  EXPECT_EQ(seen.size(), 7u);
}

TEST(Random, StreamsOfDifferentHeadsOperandsAndSeedsDiffer) {
  std::set<std::uint64_t> first;
  int streams = 0;
  for (std::uint64_t seed : {0, 1, 2})
    for (const Operand operand : {Operand::q, Operand::k, Operand::v})
      for (std::int64_t b : {0, 1, 65535})
        for (std::int64_t h : {0, 1, 2, 65535}) {
          first.insert(head_stream(seed, operand, b, h).bits());
          ++streams;
        }
  EXPECT_EQ(static_cast<int>(first.size()), streams);
}

TEST(Random, NeighbouringStreamsAreNotCorrelated) {
  Random a(5, 0), b(5, 1);
  double product = 0;
  for (int i = 0; i < 100000; ++i)
    product += static_cast<double>(a.normal()) * static_cast<double>(b.normal());
  EXPECT_NEAR(product / 100000, 0, 0.015);
}

}  // namespace
}  // namespace runmax::inputs
