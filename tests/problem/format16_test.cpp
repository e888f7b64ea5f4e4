// fp16 and bf16: every value there and back, and the rounding at every boundary.
#include "problem/format16.hpp"

#include <gtest/gtest.h>

namespace runmax {
namespace {

TEST(Format16, KnownValues) {
  EXPECT_EQ(encode16(format_f16, 1.0), 0x3c00);
  EXPECT_EQ(encode16(format_f16, -2.0), 0xc000);
  EXPECT_EQ(encode16(format_f16, 65504.0), 0x7bff);
  EXPECT_EQ(encode16(format_f16, 65519.99), 0x7bff);
  EXPECT_EQ(encode16(format_f16, 65520.0), 0x7c00);
  EXPECT_EQ(encode16(format_f16, 0x1p-24), 0x0001);
  EXPECT_EQ(encode16(format_f16, 0x1p-25), 0x0000) << "half of the smallest is a tie with zero";
  EXPECT_EQ(encode16(format_f16, 0x1.8p-24), 0x0002);
  EXPECT_EQ(encode16(format_f16, 1.0 / 3), 0x3555);
  EXPECT_EQ(encode16(format_bf16, 1.0), 0x3f80);
  EXPECT_EQ(encode16(format_bf16, 1.0 / 3), 0x3eab);
  EXPECT_EQ(encode16(format_bf16, -0.0), 0x8000);
  EXPECT_EQ(encode16(format_bf16, 3.4028235e38), 0x7f80);
  EXPECT_EQ(encode16(format_bf16, 0x1p-133), 0x0001);
  EXPECT_EQ(decode16(format_f16, 0x3555), 0x1.554p-2f);
  EXPECT_EQ(decode16(format_bf16, 0x0001), 0x1p-133f);
  EXPECT_EQ(decode16(format_f16, 0xfc00), -std::numeric_limits<float>::infinity());
}

TEST(Format16, EveryValueComesBackAndNaNStaysNaN) {
  for (const Format16 f : {format_f16, format_bf16})
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const float value = decode16(f, static_cast<std::uint16_t>(bits));
      const std::uint16_t back = encode16(f, static_cast<double>(value));
      ASSERT_TRUE(std::isnan(value) ? std::isnan(decode16(f, back)) : back == bits) << std::hex << bits;
    }
}

TEST(Format16, ToTheNearestAndOnTheBoundaryToTheEven) {
  for (const Format16 f : {format_f16, format_bf16})
    for (std::uint32_t bits = 0; bits + 1 < f.infinite(); ++bits) {
      const auto lower = static_cast<double>(decode16(f, static_cast<std::uint16_t>(bits)));
      const auto upper = static_cast<double>(decode16(f, static_cast<std::uint16_t>(bits + 1)));
      ASSERT_LT(lower, upper);
      const double middle = (lower + upper) / 2;
      ASSERT_EQ(encode16(f, middle), bits + bits % 2);
      ASSERT_EQ(encode16(f, std::nextafter(middle, 0.0)), bits);
      ASSERT_EQ(encode16(f, std::nextafter(middle, 1e300)), bits + 1);
    }
}

}  // namespace
}  // namespace runmax
