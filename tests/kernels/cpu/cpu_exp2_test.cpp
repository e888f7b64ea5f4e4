// The engine's exponential, on every instruction set: accuracy against double, and the special values.
#include <hwy/targets.h>

#include <cmath>
#include <cstring>

#include "kernels/forward/cpu/tiles.hpp"
#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {
namespace {

class CpuExp2 : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { cpu::force_tile_target(GetParam()); }
  void TearDown() override { cpu::force_tile_target(0); }

  static std::vector<float> exp2(const std::vector<float>& x, float scale) {
    std::vector<float> result(x.size(), -1.0f);
    cpu::tile_functions().exp2(x.data(), scale, result.data(), static_cast<std::int64_t>(x.size()));
    return result;
  }
  static float exp2(float x, float scale = 1.0f) { return exp2(std::vector<float>{x}, scale).front(); }
};

double ulps(float got, double want) {
  const float nearest = static_cast<float>(want);
  const double ulp = static_cast<double>(std::nextafter(nearest, infinity)) - static_cast<double>(nearest);
  return std::abs(static_cast<double>(got) - want) / ulp;
}

// Every 97th float of [-125.5, -2^-30], and all of their sort near 0.
std::vector<float> negative_floats(float lowest) {
  std::vector<float> list;
  std::uint32_t first = 0, last = 0;
  const float smallest = -0x1p-30f;
  std::memcpy(&first, &smallest, sizeof first);
  std::memcpy(&last, &lowest, sizeof last);
  for (std::uint32_t bits = first; bits <= last; bits += 97) {
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    list.push_back(x);
  }
  return list;
}

TEST_P(CpuExp2, IsWithinOneAndAHalfUlpOfTheTruePowerOfTwo) {
  const std::vector<float> x = negative_floats(-125.5f);
  const std::vector<float> got = exp2(x, 1.0f);
  double worst = 0;
  float where = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = ulps(got[i], std::exp2(static_cast<double>(x[i])));
    if (!(error <= worst)) worst = error, where = x[i];
  }
  EXPECT_LE(worst, 1.5) << "at " << where << ": got " << exp2(where) << " want " << std::exp2(where);
  RecordProperty("worst_ulp", std::to_string(worst));
}

// With log2(e) as the scale this is exp over [-104, 0]; where exp is subnormal the answer is 0. A processor
// without fused multiply-add rounds scale * x first, which near -87 alone is worth 2^-18 of the result.
TEST_P(CpuExp2, AsExpFollowsDoubleOverTheWholeRange) {
  const float scale = 1.44269504f;
  for (float x = -104.0f; x <= 0.0f; x += 0.00037f) {
    const double want = std::exp2(static_cast<double>(scale) * static_cast<double>(x));
    const float got = exp2(x, scale);
    if (static_cast<double>(scale) * static_cast<double>(x) < -126.1) {
      ASSERT_EQ(got, 0.0f) << "exp(" << x << ") underflows";
    } else {
      ASSERT_NEAR(got, want, want * (0x1p-23 * (1.5 + std::abs(static_cast<double>(x)))) + 0x1p-125)
          << "exp(" << x << ")";
    }
  }
}

TEST_P(CpuExp2, OfZeroIsOneWhateverItsSign) {
  EXPECT_EQ(exp2(0.0f), 1.0f);
  EXPECT_EQ(exp2(-0.0f), 1.0f);
  EXPECT_EQ(exp2(-1e-45f), 1.0f) << "a subnormal argument";
  EXPECT_EQ(exp2(-1e-39f, 2.5f), 1.0f) << "a subnormal argument";
}

TEST_P(CpuExp2, OfWholeNumbersIsExact) {
  for (int n = 0; n >= -125; --n) EXPECT_EQ(exp2(static_cast<float>(n)), std::ldexp(1.0f, n)) << "2^" << n;
}

TEST_P(CpuExp2, OfWhatIsFarDownIsExactlyZero) {
  for (const float x : {-126.0f, -127.0f, -149.0f, -150.0f, -1000.0f, -1e30f, -3.4028235e38f, -infinity})
    for (const float scale : {1.0f, 1.4426950f, 2.8853900f}) {
      const float got = exp2(x, scale);
      EXPECT_EQ(got, 0.0f) << x << " * " << scale;
      EXPECT_FALSE(std::signbit(got)) << x << " * " << scale;
    }
}

TEST_P(CpuExp2, NeverGivesASubnormalNorMoreThanOne) {
  for (float x = -130.0f; x <= 0.0f; x += 0.0011f) {
    const float got = exp2(x);
    ASSERT_TRUE(got == 0.0f || (got >= std::numeric_limits<float>::min() && got <= 1.0f))
        << x << " -> " << got;
  }
}

TEST_P(CpuExp2, KeepsEveryNaN) {
  for (const std::uint32_t bits :
       {0x7fc00000u, 0xffc00000u, 0x7fc00001u, 0x7fffffffu, 0xffffffffu, 0x7fc0a5a5u}) {
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    EXPECT_TRUE(std::isnan(exp2(x))) << std::hex << bits;
  }
}

TEST_P(CpuExp2, GivesAnElementTheSameBitsInEveryLane) {
  std::vector<float> x;
  for (int i = 0; i < 101; ++i) x.push_back(-0.37f * static_cast<float>(i));
  const std::vector<float> together = exp2(x, 1.25f);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(exp2(x[i], 1.25f), together[i]) << i;
}

std::string target_name(const ::testing::TestParamInfo<std::int64_t>& test) {
  return hwy::TargetName(test.param);
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, CpuExp2, ::testing::ValuesIn(cpu::tile_targets()), target_name);

}  // namespace
}  // namespace runmax::testing_cpu
