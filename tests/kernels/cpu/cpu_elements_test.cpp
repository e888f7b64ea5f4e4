// fp16 and bf16 on every instruction set, against the definition of the formats: all 65536 values upwards,
// and downwards every rounding boundary between two neighbours.
#include <hwy/targets.h>
#include <pmmintrin.h>
#include <xmmintrin.h>

#include <cmath>
#include <cstring>

#include "kernels/forward/cpu/elements.hpp"
#include "kernels/forward/cpu/tiles.hpp"
#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {
namespace {

struct Format {
  DType dtype;
  int exponent_bits, fraction_bits;
};
constexpr Format fp16{DType::f16, 5, 10}, bf16{DType::bf16, 8, 7};

// The value of an encoding, by the definition of a binary interchange format.
double value_of(const Format& f, std::uint32_t bits) {
  const std::uint32_t fraction = bits & ((1u << f.fraction_bits) - 1);
  const std::uint32_t exponent = (bits >> f.fraction_bits) & ((1u << f.exponent_bits) - 1);
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  const double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == (1u << f.exponent_bits) - 1)
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<double>(fraction), 1 - bias - f.fraction_bits);
  return sign * std::ldexp(1.0 + std::ldexp(static_cast<double>(fraction), -f.fraction_bits),
                           static_cast<int>(exponent) - bias);
}

class CpuElements : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { cpu::force_tile_target(GetParam()); }
  void TearDown() override { cpu::force_tile_target(0); }
};

std::vector<std::uint16_t> narrowed(const std::vector<float>& values, DType dtype) {
  std::vector<std::uint16_t> got(values.size(), 0xa5a5);
  cpu::element_functions().narrow(values.data(), static_cast<std::int64_t>(values.size()), dtype, got.data(),
                                  1);
  return got;
}

void expect_all_values_widen(const Format& f) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> got(all.size(), nan);
  // Rows of 1 to 64 channels, so that each value stands in a full vector and in a remainder.
  for (const std::int64_t channels : {64, 61, 1}) {
    std::fill(got.begin(), got.end(), -7.0f);
    const std::int64_t rows = 65536 / channels;
    cpu::element_functions().widen({all.data(), f.dtype, channels, 1}, rows, channels, got.data());
    for (std::int64_t i = 0; i < rows * channels; ++i) {
      const double want = value_of(f, static_cast<std::uint32_t>(i));
      const float have = got[static_cast<std::size_t>(i)];
      const bool good = std::isnan(want)
                            ? std::isnan(have)
                            : static_cast<double>(have) == want && std::signbit(have) == (i >= 32768);
      ASSERT_TRUE(good) << std::hex << i << " became " << have << " want " << want << ", " << std::dec
                        << channels << " channels";
    }
  }
}

TEST_P(CpuElements, EveryFp16ValueWidensExactly) { expect_all_values_widen(fp16); }
TEST_P(CpuElements, EveryBf16ValueWidensExactly) { expect_all_values_widen(bf16); }

// Between two neighbours lies one boundary: below it the lower is nearest, above it the upper, on it the
// even.
void expect_round_to_nearest_even(const Format& f) {
  const std::uint32_t infinite = ((1u << f.exponent_bits) - 1) << f.fraction_bits;
  std::vector<float> values;
  std::vector<std::uint16_t> want;
  const auto add = [&](double value, std::uint32_t bits) {
    values.push_back(static_cast<float>(value));
    want.push_back(static_cast<std::uint16_t>(bits));
    values.push_back(static_cast<float>(-value));
    want.push_back(static_cast<std::uint16_t>(bits | 0x8000));
  };
  for (std::uint32_t bits = 0; bits < infinite; ++bits) {
    const double lower = value_of(f, bits);
    // Behind the largest number the next step of the same size would come; from half of it on, infinity.
    const double upper = bits + 1 < infinite ? value_of(f, bits + 1) : 2 * lower - value_of(f, bits - 1);
    const double middle = (lower + upper) / 2;
    add(lower, bits);
    const auto boundary = static_cast<float>(middle);
    if (static_cast<double>(boundary) != middle) continue;  // finer than FP32 itself
    add(middle, bits % 2 == 0 ? bits : bits + 1);
    add(static_cast<double>(std::nextafter(boundary, 0.0f)), bits);
    add(static_cast<double>(std::nextafter(boundary, infinity)), bits + 1);
  }
  add(static_cast<double>(infinity), infinite);
  add(static_cast<double>(std::numeric_limits<float>::max()), infinite);
  const std::vector<std::uint16_t> got = narrowed(values, f.dtype);
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(got[i], want[i]) << values[i] << " (" << std::hexfloat << values[i] << ")";
}

TEST_P(CpuElements, Fp16RoundsToNearestEven) { expect_round_to_nearest_even(fp16); }
TEST_P(CpuElements, Bf16RoundsToNearestEven) { expect_round_to_nearest_even(bf16); }

TEST_P(CpuElements, EveryValueComesBackFromFp32) {
  for (const Format& f : {fp16, bf16}) {
    std::vector<float> values;
    for (std::uint32_t bits = 0; bits < 65536; ++bits)
      values.push_back(static_cast<float>(value_of(f, bits)));
    const std::vector<std::uint16_t> got = narrowed(values, f.dtype);
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      if (!std::isnan(value_of(f, bits))) {
        ASSERT_EQ(got[bits], bits);
      }
    }
  }
}

TEST_P(CpuElements, EveryNaNStaysNaN) {
  std::vector<float> values;
  for (const std::uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u,
                                   0x7f807fffu, 0x7f808000u, 0xffff8000u}) {
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    values.push_back(x);
  }
  for (const Format& f : {fp16, bf16})
    for (const std::uint16_t bits : narrowed(values, f.dtype))
      EXPECT_TRUE(std::isnan(value_of(f, bits))) << std::hex << bits;
}

TEST_P(CpuElements, TheCallersDenormalModesChangeNothing) {
  std::vector<std::uint16_t> subnormals;
  for (std::uint16_t bits = 0; bits < 0x0400; ++bits) subnormals.push_back(bits);
  std::vector<float> got(subnormals.size());
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
  cpu::element_functions().widen({subnormals.data(), DType::f16, 0, 1}, 1, 0x400, got.data());
  const std::vector<std::uint16_t> back = narrowed(got, DType::f16);
  _mm_setcsr(before);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(static_cast<double>(got[i]), value_of(fp16, subnormals[i]));
    ASSERT_EQ(back[i], subnormals[i]);
  }
}

TEST_P(CpuElements, StridesAreHonouredAndNothingElseIsReadOrWritten) {
  // Channels three apart, rows backwards; all else is NaN.
  constexpr std::int64_t rows = 5, channels = 19;
  std::vector<std::uint16_t> memory(rows * channels * 3, 0x7fff);
  const std::int64_t first = (rows - 1) * channels * 3;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < channels; ++c)
      memory[static_cast<std::size_t>(first - r * channels * 3 + c * 3)] =
          narrowed({static_cast<float>(r * 100 + c)}, DType::bf16)[0];
  std::vector<float> got(rows * channels, nan);
  cpu::element_functions().widen({memory.data() + first, DType::bf16, -channels * 3, 3}, rows, channels,
                                 got.data());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < channels; ++c) {
      const float want =
          static_cast<float>(value_of(bf16, narrowed({static_cast<float>(r * 100 + c)}, DType::bf16)[0]));
      ASSERT_EQ(got[static_cast<std::size_t>(r * channels + c)], want);
    }
  std::vector<std::uint16_t> written(channels * 3, 0xffff);
  std::vector<float> row(channels, 1.0f);
  cpu::element_functions().narrow(row.data(), channels, DType::bf16, written.data(), 3);
  for (std::size_t i = 0; i < written.size(); ++i) ASSERT_EQ(written[i], i % 3 == 0 ? 0x3f80 : 0xffff) << i;
}

std::string target_name(const ::testing::TestParamInfo<std::int64_t>& test) {
  return hwy::TargetName(test.param);
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, CpuElements, ::testing::ValuesIn(cpu::tile_targets()), target_name);

}  // namespace
}  // namespace runmax::testing_cpu
