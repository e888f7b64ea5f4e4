// Conversion of file elements to FP32.
#include "files/elements.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "files/file_bytes.hpp"

namespace runmax::files {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<float> converted(const std::string& data, Element element, const Shape& shape) {
  Result<FloatArray> array = to_f32(bytes_of(data), element, shape, Order::c);
  EXPECT_TRUE(array.ok()) << array.status().message();
  return array.ok() ? array.value().values : std::vector<float>();
}

TEST(Elements, EveryHalfHasItsExactValue) {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  const std::vector<float> values = converted(raw(bits), Element::f16, {65536});
  ASSERT_EQ(values.size(), bits.size());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    // The definition: sign, 5 bits of exponent biased by 15, 10 bits of fraction.
    const int exponent = static_cast<int>(i >> 10 & 31), fraction = static_cast<int>(i & 1023);
    double want = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31)
      want =
          fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(values[i])) << "half " << i;
    } else {
      ASSERT_EQ(values[i], i & 0x8000 ? -want : want) << "half " << i;
    }
    ASSERT_EQ(std::signbit(values[i]), (i & 0x8000) != 0) << "half " << i;
  }
}

TEST(Elements, Bfloat16IsTheUpperHalfOfAFloat) {
  const std::vector<float> values =
      converted(raw(std::vector<std::uint16_t>{0x3f80, 0xc020, 0x0001, 0x7f80, 0x8000}), Element::bf16, {5});
  EXPECT_EQ(values, (std::vector<float>{1.0f, -2.5f, 0x1p-133f, infinity, -0.0f}));
  EXPECT_TRUE(std::signbit(values[4]));
  EXPECT_TRUE(std::isnan(converted(raw(std::vector<std::uint16_t>{0x7fc0}), Element::bf16, {1})[0]));
}

TEST(Elements, DoublesRoundToTheNearestFloatTiesToEven) {
  const double one_up = 1 + 0x1p-23;
  const std::vector<float> values = converted(
      raw(std::vector<double>{0.1, 1 + 0x1p-24, one_up + 0x1p-24, 1e-60, -0.0, 0x1.fffffefffffffp127}),
      Element::f64, {6});
  EXPECT_EQ(values, (std::vector<float>{0.1f, 1.0f, 1 + 0x1p-22f, 0.0f, -0.0f, 0x1.fffffep127f}));
  EXPECT_TRUE(std::signbit(values[4]));
}

TEST(Elements, ADoubleThatWouldBecomeInfiniteIsAnErrorNamingIt) {
  for (const double big : {0x1.ffffffp127, -1e300, 1e39}) {
    Result<FloatArray> array =
        to_f32(bytes_of(raw(std::vector<double>{0, 0, 0, 0, 0, big})), Element::f64, {2, 3}, Order::c);
    ASSERT_FALSE(array.ok());
    EXPECT_EQ(array.status().message().substr(0, 18), "element (1, 2) is ");
    EXPECT_NE(array.status().message().find("beyond the range of f32"), std::string::npos);
  }
}

TEST(Elements, InfinitiesAndNaNOfDoublesStay) {
  const std::vector<float> values =
      converted(raw(std::vector<double>{HUGE_VAL, -HUGE_VAL, std::numeric_limits<double>::quiet_NaN()}),
                Element::f64, {3});
  EXPECT_EQ(values[0], infinity);
  EXPECT_EQ(values[1], -infinity);
  EXPECT_TRUE(std::isnan(values[2]));
}

TEST(Elements, UnalignedDataIsRead) {
  const std::string data = "x" + raw(std::vector<double>{1.5, -2});
  Result<FloatArray> array = to_f32(bytes_of(data).subspan(1), Element::f64, {2}, Order::c);
  ASSERT_TRUE(array.ok());
  EXPECT_EQ(array.value().values, (std::vector<float>{1.5f, -2.0f}));
}

TEST(Elements, FortranOrderOfEveryRankIsTransposed) {
  // Element [i][j][k] = 100 i + 10 j + k, stored with i fastest.
  std::vector<float> data;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) data.push_back(static_cast<float>(100 * i + 10 * j + k));
  Result<FloatArray> array = to_f32(bytes_of(raw(data)), Element::f32, {2, 3, 4}, Order::fortran);
  ASSERT_TRUE(array.ok());
  std::size_t at = 0;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k)
        EXPECT_EQ(array.value().values[at++], static_cast<float>(100 * i + 10 * j + k))
            << i << " " << j << " " << k;
}

TEST(Elements, ShapesPrintAsPythonPrintsThem) {
  EXPECT_EQ(shape_text({}), "()");
  EXPECT_EQ(shape_text({5}), "(5,)");
  EXPECT_EQ(shape_text({1234, 5}), "(1234, 5)");
}

TEST(Elements, CountingStopsAtTheLimitAndZeroWins) {
  std::uint64_t count = 7;
  EXPECT_TRUE(count_elements({}, 10, count));
  EXPECT_EQ(count, 1u);
  EXPECT_TRUE(count_elements({2, 5}, 10, count));
  EXPECT_EQ(count, 10u);
  EXPECT_FALSE(count_elements({2, 6}, 10, count));
  EXPECT_TRUE(count_elements({0, 10}, 10, count));
  EXPECT_EQ(count, 0u);
  EXPECT_FALSE(count_elements({0, 11}, 10, count));
}

}  // namespace
}  // namespace runmax::files
