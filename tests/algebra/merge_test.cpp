// The public merge of finished partial results: values, aliasing, strides and errors.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "inputs/random.hpp"
#include "runmax/runmax.hpp"

namespace runmax {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Partial results of `rows` rows with `dim` channels.
struct Part {
  std::int64_t rows, dim;
  std::vector<float> o, lse;

  Part(std::int64_t row_count, std::int64_t channels)
      : rows(row_count),
        dim(channels),
        o(static_cast<std::size_t>(row_count * channels), std::numeric_limits<float>::quiet_NaN()),
        lse(static_cast<std::size_t>(row_count), std::numeric_limits<float>::quiet_NaN()) {}

  TensorView o_view() const { return packed_view(o.data(), DType::f32, {1, 1, rows, dim}, Layout::bhsd); }
  TensorView lse_view() const { return packed_view(lse.data(), DType::f32, {1, 1, rows, 1}, Layout::bhsd); }
};

Status merge_parts(const Part& a, const Part& b, const Part& out) {
  return merge(a.o_view(), a.lse_view(), b.o_view(), b.lse_view(), out.o_view(), out.lse_view());
}

Part draw(std::uint64_t seed, std::int64_t rows, std::int64_t dim, float lse_spread) {
  inputs::Random random(seed);
  Part part(rows, dim);
  for (float& value : part.o) value = random.normal();
  for (float& value : part.lse) value = random.below(5) == 0 ? -infinity : lse_spread * random.normal();
  return part;
}

TEST(Merge, IsTheFormulaRoundedOnce) {
  EXPECT_TRUE(rc::check("merge is its formula", [](std::uint64_t seed) {
    inputs::Random random(seed);
    const float spreads[] = {1, 30, 1e4f};
    const float spread = spreads[random.below(3)];
    const Part a = draw(random.bits(), 7, 5, spread), b = draw(random.bits(), 7, 5, spread);
    Part out(7, 5);
    RC_ASSERT(merge_parts(a, b, out).ok());
    for (std::size_t i = 0; i < 7; ++i) {
      const long double la = a.lse[i], lb = b.lse[i], top = std::max(la, lb);
      if (top == -infinity) {
        RC_ASSERT(out.lse[i] == -infinity);
        for (std::size_t c = 0; c < 5; ++c) RC_ASSERT(out.o[i * 5 + c] == 0.0f);
        continue;
      }
      const long double wa = std::exp(la - top), wb = std::exp(lb - top), sum = wa + wb;
      const long double lse = top + std::log(sum);
      RC_ASSERT(std::abs(out.lse[i] - lse) <= 0x1p-23L * std::abs(lse) + 1e-10L);
      for (std::size_t c = 0; c < 5; ++c) {
        const long double pa = wa / sum * a.o[i * 5 + c], pb = wb / sum * b.o[i * 5 + c];
        RC_ASSERT(std::abs(out.o[i * 5 + c] - (pa + pb)) <=
                  0x1p-24L * std::abs(pa + pb) + 1e-14L * (std::abs(pa) + std::abs(pb)) + 0x1p-149L);
      }
    }
  }));
}

TEST(Merge, CommutesToTheBit) {
  const Part a = draw(1, 50, 3, 2), b = draw(2, 50, 3, 2);
  Part ab(50, 3), ba(50, 3);
  ASSERT_TRUE(merge_parts(a, b, ab).ok());
  ASSERT_TRUE(merge_parts(b, a, ba).ok());
  EXPECT_EQ(ab.o, ba.o);
  EXPECT_EQ(ab.lse, ba.lse);
}

TEST(Merge, IsAssociativeWithinRounding) {
  const Part a = draw(1, 50, 3, 2), b = draw(2, 50, 3, 2), c = draw(3, 50, 3, 2);
  Part ab(50, 3), left(50, 3), bc(50, 3), right(50, 3);
  ASSERT_TRUE(merge_parts(a, b, ab).ok() && merge_parts(ab, c, left).ok());
  ASSERT_TRUE(merge_parts(b, c, bc).ok() && merge_parts(a, bc, right).ok());
  for (std::size_t i = 0; i < left.o.size(); ++i) EXPECT_NEAR(left.o[i], right.o[i], 2e-6);
  for (std::size_t i = 0; i < left.lse.size(); ++i)
    EXPECT_TRUE(left.lse[i] == right.lse[i] || std::abs(left.lse[i] - right.lse[i]) < 2e-6);
}

TEST(Merge, TheOutputMayBeEitherInput) {
  const Part a = draw(1, 50, 3, 2), b = draw(2, 50, 3, 2);
  Part apart(50, 3), into_a = a, into_b = b;
  ASSERT_TRUE(merge_parts(a, b, apart).ok());
  ASSERT_TRUE(merge_parts(into_a, b, into_a).ok());
  ASSERT_TRUE(merge_parts(a, into_b, into_b).ok());
  EXPECT_EQ(into_a.o, apart.o);
  EXPECT_EQ(into_a.lse, apart.lse);
  EXPECT_EQ(into_b.o, apart.o);
  EXPECT_EQ(into_b.lse, apart.lse);
}

TEST(Merge, AResultMergesWithItself) {
  Part a = draw(1, 20, 3, 2);
  const Part before = a;
  ASSERT_TRUE(merge_parts(a, a, a).ok());
  EXPECT_EQ(a.o, [&] {
    std::vector<float> o = before.o;
    for (std::size_t i = 0; i < o.size(); ++i)
      if (before.lse[i / 3] == -infinity) o[i] = 0;
    return o;
  }());
}

TEST(Merge, ManySmallPartsAddUp) {
  // 4096 parts of one key each, all of score 0: the mean of their values.
  Part sum(1, 1);
  sum.o = {0};
  sum.lse = {-infinity};
  for (int j = 0; j < 4096; ++j) {
    Part one(1, 1);
    one.o = {static_cast<float>(j)};
    one.lse = {0};
    ASSERT_TRUE(merge_parts(sum, one, sum).ok());
  }
  EXPECT_NEAR(sum.o[0], 2047.5, 0.02);
  EXPECT_NEAR(sum.lse[0], std::log(4096.0), 2e-4);
}

TEST(Merge, ANaNLseShowsAndANaNOutputShows) {
  Part a(1, 1), b(1, 1), out(1, 1);
  a.o = {1};
  b.o = {2};
  a.lse = {std::numeric_limits<float>::quiet_NaN()};
  b.lse = {0};
  ASSERT_TRUE(merge_parts(a, b, out).ok());
  EXPECT_TRUE(std::isnan(out.o[0]));
  EXPECT_TRUE(std::isnan(out.lse[0]));
  a.lse = {0};
  a.o = {std::numeric_limits<float>::quiet_NaN()};
  ASSERT_TRUE(merge_parts(a, b, out).ok());
  EXPECT_TRUE(std::isnan(out.o[0]));
  EXPECT_NEAR(out.lse[0], 0.693147, 1e-6);
}

TEST(Merge, StridesAreHonoured) {
  // (batch 2, heads 2, length 3, dim 2), o_b stored (sequence, heads, batch, dim).
  std::vector<float> o_a(24), o_b(24), lse(12, 0), out(24, -1), out_lse(12, -1);
  TensorView a = packed_view(o_a.data(), DType::f32, {2, 2, 3, 2}, Layout::bhsd);
  TensorView b = a;
  b.data = o_b.data();
  b.strides = {2, 4, 8, 1};
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t c = 0; c < 2; ++c) {
          const auto value = static_cast<float>(n * 1000 + h * 100 + i * 10 + c);
          o_a[static_cast<std::size_t>(n * 12 + h * 6 + i * 2 + c)] = value;
          o_b[static_cast<std::size_t>(n * 2 + h * 4 + i * 8 + c)] = value;
        }
  TensorView l = packed_view(lse.data(), DType::f32, {2, 2, 3, 1}, Layout::bhsd), l_out = l, o = a;
  o.data = out.data();
  l_out.data = out_lse.data();
  ASSERT_TRUE(merge(a, l, b, l, o, l_out).ok());
  EXPECT_EQ(out, o_a);
}

TEST(Merge, ErrorsNameTheTensorAndTheRule) {
  const Part a(3, 2), b(3, 2), out(3, 2);
  const auto message = [&](auto spoil) {
    TensorView views[] = {a.o_view(), a.lse_view(), b.o_view(), b.lse_view(), out.o_view(), out.lse_view()};
    spoil(views);
    return merge(views[0], views[1], views[2], views[3], views[4], views[5]).message();
  };
  EXPECT_EQ(message([](TensorView* v) { v[2].shape[2] = 4; }),
            "o_b: shape must be (1, 1, 3, 2) to fit o, got (1, 1, 4, 2)");
  EXPECT_EQ(message([](TensorView* v) { v[1].shape[3] = 2; }),
            "lse_a: shape must be (1, 1, 3, 1) to fit o, got (1, 1, 3, 2)");
  EXPECT_EQ(message([](TensorView* v) { v[0].dtype = DType::f16; }),
            "o_a: merge takes f32 tensors on the CPU, got f16 on cpu");
  EXPECT_EQ(message([](TensorView* v) { v[3].device.kind = DeviceKind::cuda; }),
            "lse_b: merge takes f32 tensors on the CPU, got f32 on cuda");
  EXPECT_EQ(message([](TensorView* v) { v[4].data = nullptr; }), "o: data is null");
  EXPECT_EQ(message([](TensorView* v) { v[4].strides[2] = 0; }),
            "o: is an output and cannot be broadcast (stride 0)");
  EXPECT_EQ(message([](TensorView* v) { v[5].data = static_cast<char*>(v[5].data) + 1; }),
            "lse: data must be aligned to its element of 4 bytes");
}

TEST(Merge, NothingToMergeSucceeds) {
  const Part a(0, 4), b(0, 4), out(0, 4);
  EXPECT_TRUE(merge_parts(a, b, out).ok());
}

}  // namespace
}  // namespace runmax
