// The layouts of wgmma's operands, swizzle and descriptors of every form in use, with matrices whose elements
// are their own index: before any attention.
#include <gtest/gtest.h>

#include <set>

#include "device/tile/swizzle.hpp"

#if defined(RUNMAX_WITH_CUDA)
#include "kernels/wgmma/products_launch.hpp"
#include "runmax/runmax.hpp"
#endif

namespace runmax::kit {
namespace {

TEST(SwizzledImage, EveryElementHasAPlaceOfItsOwn) {
  constexpr std::uint32_t rows = 128;
  std::set<std::uint32_t> places;
  for (std::uint32_t row = 0; row < rows; ++row)
    for (std::uint32_t column = 0; column < tile::image_columns; ++column)
      places.insert(tile::swizzled_offset(row, column));
  EXPECT_EQ(places.size(), rows * tile::image_columns);
  EXPECT_EQ(*places.rbegin(), rows * 128 - 2);
}

TEST(SwizzledImage, TheSamePieceOfEightRowsMeetsAllBanks) {
  for (std::uint32_t piece = 0; piece < 8; ++piece) {
    std::set<std::uint32_t> banks;
    for (std::uint32_t row = 0; row < 8; ++row) banks.insert(tile::swizzled_offset(row, 8 * piece) % 128);
    EXPECT_EQ(banks.size(), 8U) << "piece " << piece;
  }
}

#if defined(RUNMAX_WITH_CUDA)
constexpr int rows = product_rows, depth = product_depth;
// Numbers below it are exact in fp16; a prime, so that no power of two in an index is lost.
constexpr int codes = 2039;

class Descriptors : public ::testing::TestWithParam<Product> {
 protected:
  void SetUp() override {
    const Result<DeviceFacts> facts = device_facts({DeviceKind::cuda, 0});
    if (!facts.ok()) GTEST_SKIP() << facts.status().message();
    if (facts.value().compute_capability != 90)
      GTEST_SKIP() << "wgmma needs compute capability 90, got " << facts.value().compute_capability;
  }
};

// Each column of b holds a single 1, at another depth in every column: an element of the product names the
// element of a that it came from.
TEST_P(Descriptors, EveryElementOfAReachesItsPlace) {
  const int columns = product_columns(GetParam());
  std::vector<float> a(rows * depth);
  for (int i = 0; i < rows * depth; ++i) a[static_cast<std::size_t>(i)] = static_cast<float>(i % codes);
  for (int first = 0; first < depth; first += columns) {
    std::vector<float> b(static_cast<std::size_t>(depth * columns), 0.0f);
    const auto depth_of = [&](int n) { return depth - 1 - (first + n) % depth; };
    for (int n = 0; n < columns; ++n) b[static_cast<std::size_t>(depth_of(n) * columns + n)] = 1.0f;
    const Multiplied product = multiply_by(GetParam(), a, b);
    ASSERT_EQ(product.error, "");
    for (int i = 0; i < rows; ++i)
      for (int n = 0; n < columns; ++n)
        ASSERT_EQ(product.d[static_cast<std::size_t>(i * columns + n)],
                  static_cast<float>((i * depth + depth_of(n)) % codes))
            << "row " << i << ", column " << n << ", depth " << depth_of(n);
  }
}

// Row i of a picks one depth.
TEST_P(Descriptors, EveryElementOfBReachesItsPlace) {
  const int columns = product_columns(GetParam());
  std::vector<float> b(static_cast<std::size_t>(depth * columns));
  for (int i = 0; i < depth * columns; ++i) b[static_cast<std::size_t>(i)] = static_cast<float>(i % codes);
  for (int first = 0; first < depth; first += rows) {
    std::vector<float> a(rows * depth, 0.0f);
    for (int i = 0; i < rows; ++i) a[static_cast<std::size_t>(i * depth + first + i)] = 1.0f;
    const Multiplied product = multiply_by(GetParam(), a, b);
    ASSERT_EQ(product.error, "");
    for (int i = 0; i < rows; ++i)
      for (int n = 0; n < columns; ++n)
        ASSERT_EQ(product.d[static_cast<std::size_t>(i * columns + n)],
                  static_cast<float>(((first + i) * columns + n) % codes))
            << "depth " << first + i << ", column " << n;
  }
}

std::string product_name(const ::testing::TestParamInfo<Product>& info) {
  constexpr const char* names[] = {"ss_n16",  "ss_n32",    "ss_n64",    "ss_n96",    "ss_n128",
                                   "rs_n128", "rs_mn_n32", "rs_mn_n64", "rs_mn_n128"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(By, Descriptors,
                         ::testing::Values(Product::ss_n16, Product::ss_n32, Product::ss_n64, Product::ss_n96,
                                           Product::ss_n128, Product::rs_n128, Product::rs_mn_n32,
                                           Product::rs_mn_n64, Product::rs_mn_n128),
                         product_name);
#endif

}  // namespace
}  // namespace runmax::kit
