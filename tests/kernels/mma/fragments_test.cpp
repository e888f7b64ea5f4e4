// The layouts of mma.sync's operands, with matrices whose elements are their own index: before any attention.
#include <gtest/gtest.h>

#include <set>

#include "device/tile/fragments.hpp"

#if defined(RUNMAX_WITH_CUDA)
#include "kernels/mma/fragments_launch.hpp"
#include "runmax/runmax.hpp"
#endif

namespace runmax::kit {
namespace {

TEST(FragmentImage, EveryElementOfBothPlanesHasAPlaceOfItsOwn) {
  std::set<std::uint32_t> places;
  for (const tile::Plane plane : {tile::Plane::hi, tile::Plane::lo})
    for (std::uint32_t column = 0; column < tile::fragment_columns; ++column)
      for (std::uint32_t depth = 0; depth < tile::fragment_depth; ++depth)
        places.insert(tile::fragment_element(plane, column, depth));
  EXPECT_EQ(places.size(), 2U * tile::fragment_columns * tile::fragment_depth);
  EXPECT_EQ(*places.rbegin(), tile::fragment_image_bytes - 2U);
}

TEST(FragmentImage, ALanesSixteenBytesHoldItsFourDepthsOfOneColumnInBothPlanes) {
  for (int columns_8 = 0; columns_8 < 8; ++columns_8)
    for (int depth_16 = 0; depth_16 < 4; ++depth_16)
      for (int lane = 0; lane < 32; ++lane) {
        const std::uint32_t at =
            tile::fragment_offset(static_cast<std::uint32_t>(columns_8), static_cast<std::uint32_t>(depth_16),
                                  static_cast<std::uint32_t>(lane));
        const auto column = static_cast<std::uint32_t>(tile::fragment_column(columns_8, lane));
        const auto first = static_cast<std::uint32_t>(tile::fragment_first_depth(depth_16, lane));
        std::uint32_t next = at;
        for (const tile::Plane plane : {tile::Plane::hi, tile::Plane::lo})
          for (const std::uint32_t depth : {first, first + 1, first + 8, first + 9}) {
            ASSERT_EQ(tile::fragment_element(plane, column, depth), next) << "lane " << lane;
            next += 2;
          }
      }
}

#if defined(RUNMAX_WITH_CUDA)
constexpr int rows = 16, depth = tile::fragment_depth, columns = tile::fragment_columns;

class Fragments : public ::testing::TestWithParam<Instruction> {
 protected:
  void SetUp() override {
    const Result<DeviceFacts> facts = device_facts({DeviceKind::cuda, 0});
    if (!facts.ok()) GTEST_SKIP() << facts.status().message();
    const int needed = GetParam() == Instruction::m16n8k16 ? 80 : 75;
    if (facts.value().compute_capability < needed)
      GTEST_SKIP() << "the instruction needs compute capability " << needed << ", got "
                   << facts.value().compute_capability;
  }
};

// a(i, k) = 64 i + k, up to 1023 and so exact in fp16; b is a permutation: column n holds a single 1, at
// depth 63 - n. Each element of the product names the element of a that it came from.
TEST_P(Fragments, EveryElementOfAReachesItsPlace) {
  std::vector<float> a(rows * depth), b(depth * columns, 0.0f);
  for (int i = 0; i < rows * depth; ++i) a[static_cast<std::size_t>(i)] = static_cast<float>(i);
  for (int n = 0; n < columns; ++n) b[static_cast<std::size_t>((depth - 1 - n) * columns + n)] = 1.0f;
  for (const bool low_plane : {false, true}) {
    const Product product = multiply_by(GetParam(), a, b, low_plane);
    ASSERT_EQ(product.error, "");
    for (int i = 0; i < rows; ++i)
      for (int n = 0; n < columns; ++n)
        ASSERT_EQ(product.d[static_cast<std::size_t>(i * columns + n)],
                  static_cast<float>(i * depth + depth - 1 - n))
            << "row " << i << ", column " << n << (low_plane ? ", low plane" : ", high plane");
  }
}

// Elements of b are their index modulo a prime below 2048, exact in fp16; row i of a picks one depth.
TEST_P(Fragments, EveryElementOfBReachesItsPlace) {
  std::vector<float> b(depth * columns);
  for (int k = 0; k < depth; ++k)
    for (int n = 0; n < columns; ++n)
      b[static_cast<std::size_t>(k * columns + n)] = static_cast<float>((k * columns + n) % 2039);
  for (int first = 0; first < depth; first += rows) {
    std::vector<float> a(rows * depth, 0.0f);
    for (int i = 0; i < rows; ++i) a[static_cast<std::size_t>(i * depth + first + i)] = 1.0f;
    for (const bool low_plane : {false, true}) {
      const Product product = multiply_by(GetParam(), a, b, low_plane);
      ASSERT_EQ(product.error, "");
      for (int i = 0; i < rows; ++i)
        for (int n = 0; n < columns; ++n)
          ASSERT_EQ(product.d[static_cast<std::size_t>(i * columns + n)],
                    static_cast<float>(((first + i) * columns + n) % 2039))
              << "depth " << first + i << ", column " << n << (low_plane ? ", low plane" : ", high plane");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(By, Fragments, ::testing::Values(Instruction::m16n8k8, Instruction::m16n8k16),
                         [](const auto& form) {
                           return form.param == Instruction::m16n8k8 ? "m16n8k8" : "m16n8k16";
                         });
#endif

}  // namespace
}  // namespace runmax::kit
