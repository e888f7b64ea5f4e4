// The SIMD loops of the options one by one, on every instruction set: tanh's accuracy, and dropout bit by
// bit.
#include <hwy/targets.h>

#include <cmath>
#include <cstring>

#include "kernels/forward/cpu/score_options.hpp"
#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {
namespace {

class CpuOptionFunctions : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { cpu::force_tile_target(GetParam()); }
  void TearDown() override { cpu::force_tile_target(0); }
};

double ulps(float got, double want) {
  const float nearest = std::abs(static_cast<float>(want));
  const double ulp = static_cast<double>(std::nextafter(nearest, infinity)) - static_cast<double>(nearest);
  return std::abs(static_cast<double>(got) - want) / ulp;
}

TEST_P(CpuOptionFunctions, TanhIsWithin2UlpAndItsSlopeWithin40) {
  std::vector<float> x;
  std::uint32_t first = 0, last = 0;
  const float smallest = 0x1p-120f, largest = 20.0f;
  std::memcpy(&first, &smallest, sizeof first);
  std::memcpy(&last, &largest, sizeof last);
  for (std::uint32_t bits = first; bits <= last; bits += bits < 0x3a000000 ? 100003 : 211) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    x.push_back(value);
    x.push_back(-value);
  }
  std::vector<float> tanh(x.size()), slope(x.size());
  cpu::option_functions().tanh(x.data(), tanh.data(), slope.data(), static_cast<std::int64_t>(x.size()));
  double worst = 0, worst_slope = 0, worst_absolute = 0;
  for (std::size_t at = 0; at < x.size(); ++at) {
    const double exact = std::tanh(static_cast<double>(x[at])), cosh = std::cosh(static_cast<double>(x[at]));
    worst = std::max(worst, ulps(tanh[at], exact));
    worst_slope = std::max(worst_slope, ulps(slope[at], 1 / (cosh * cosh)));
    worst_absolute = std::max(worst_absolute, std::abs(static_cast<double>(slope[at]) - 1 / (cosh * cosh)));
    ASSERT_LE(std::abs(tanh[at]), 1.0f) << x[at];
    ASSERT_GE(slope[at], 0.0f) << x[at];
  }
  EXPECT_LE(worst, 2.0);
  EXPECT_LE(worst_slope, 40.0);
  EXPECT_LE(worst_absolute, 0x1p-22);
  RecordProperty("worst_ulp", std::to_string(worst));
  RecordProperty("worst_slope_ulp", std::to_string(worst_slope));
}

TEST_P(CpuOptionFunctions, TanhOfSpecialValues) {
  const std::vector<float> x{0.0f, -0.0f, infinity, -infinity, nan, 1e30f, -1e30f, 0x1p-149f};
  std::vector<float> tanh(x.size()), slope(x.size());
  cpu::option_functions().tanh(x.data(), tanh.data(), slope.data(), static_cast<std::int64_t>(x.size()));
  EXPECT_EQ(tanh[0], 0.0f);
  EXPECT_TRUE(std::signbit(tanh[1]));
  EXPECT_EQ(tanh[2], 1.0f);
  EXPECT_EQ(tanh[3], -1.0f);
  EXPECT_TRUE(std::isnan(tanh[4]));
  EXPECT_EQ(tanh[5], 1.0f);
  EXPECT_EQ(tanh[6], -1.0f);
  EXPECT_EQ(tanh[7], 0x1p-149f);
  EXPECT_EQ(slope[0], 1.0f);
  EXPECT_EQ(slope[2], 0.0f);
  EXPECT_TRUE(std::isnan(slope[4]));
}

TEST_P(CpuOptionFunctions, DropoutIsThatOfTheHeaderForAnyTile) {
  const PhiloxKey key = dropout_key(12, 34, 5, 6);
  const std::uint32_t threshold = dropout_threshold(0.4);
  const std::int64_t far = (std::int64_t{1} << 34) - 160;  // the block's number passes 2^32
  for (const std::int64_t query : {std::int64_t{0}, std::int64_t{77}, (std::int64_t{1} << 33) + 5})
    for (const std::int64_t first_key : {std::int64_t{0}, std::int64_t{16}, std::int64_t{512}, far})
      for (const cpu::TileKeys keys : {cpu::TileKeys{0, 512}, cpu::TileKeys{3, 5}, cpu::TileKeys{31, 222},
                                       cpu::TileKeys{64, 64}, cpu::TileKeys{511, 512}}) {
        std::vector<float> weights(528);
        for (std::size_t j = 0; j < weights.size(); ++j) weights[j] = 1.0f + static_cast<float>(j);
        cpu::option_functions().drop(weights.data(), keys, key, threshold, query, first_key);
        for (std::int32_t j = keys.begin; j < keys.end; ++j)
          ASSERT_EQ(weights[static_cast<std::size_t>(j)],
                    dropout_keeps(key, threshold, query, first_key + j) ? 1.0f + static_cast<float>(j) : 0.0f)
              << "query " << query << " key " << first_key + j;
        for (std::size_t j = 512; j < weights.size(); ++j)
          ASSERT_EQ(weights[j], 1.0f + static_cast<float>(j));
      }
}

// What the backward pass reads: scores after every option, and the cap's slope.
TEST_P(CpuOptionFunctions, TransformGivesScoresVisibleBitsMaximaAndSlopes) {
  constexpr std::size_t stride = 528;
  std::vector<float> raw(stride, nan), bias(stride), scores, lane_max(16, nan), slope(stride, nan);
  std::vector<std::uint8_t> mask(stride, 1);
  inputs::Random random(3);
  const cpu::TileKeys keys{5, 301};
  for (std::size_t j = 5; j < 301; ++j) {
    raw[j] = 4 * random.normal();
    bias[j] = random.below(9) == 0 ? -infinity : random.normal();
    mask[j] = static_cast<std::uint8_t>(random.below(5) != 0);
  }
  raw[40] = nan;
  mask[40] = 0;
  scores = raw;
  std::vector<std::uint64_t> visible(cpu::visible_words, ~std::uint64_t{0});
  cpu::ScoreUnits units;
  units.softcap = 3.0f;
  units.cap_factor = 1.5f / 3.0f;
  cpu::OptionRow row;
  row.keys = keys;
  row.bias = bias.data();
  row.mask = mask.data();
  row.slope = 0.125f;
  row.diagonal = 100;
  row.scores = scores.data();
  row.lane_max = lane_max.data();
  row.visible = visible.data();
  row.cap_slope = slope.data();
  cpu::option_functions().transform(units, row);
  float largest = -infinity;
  for (std::int64_t j = 0; j < 512; ++j) {
    const auto at = static_cast<std::size_t>(j);
    const bool sees = j >= keys.begin && j < keys.end && mask[at] != 0 && bias[at] != -infinity;
    ASSERT_EQ((visible[at / 64] >> (at % 64) & 1) != 0, sees) << "key " << j;
    if (j < keys.begin || j >= keys.end) continue;
    const double tanh = std::tanh(0.5 * raw[at]);
    if (sees) {
      const double want = 3 * tanh + bias[at] - 0.125 * std::abs(100.0 - static_cast<double>(j));
      EXPECT_NEAR(scores[at], want, 4e-6 * (1 + std::abs(want))) << "key " << j;
      EXPECT_NEAR(slope[at], 1 - tanh * tanh, 1e-6) << "key " << j;
      largest = std::max(largest, scores[at]);
    } else {
      EXPECT_EQ(scores[at], -infinity) << "key " << j;
    }
  }
  const auto lanes = static_cast<std::ptrdiff_t>(cpu::tile_functions().lanes);
  EXPECT_EQ(*std::max_element(lane_max.begin(), lane_max.begin() + lanes), largest);
}

std::string target_name(const ::testing::TestParamInfo<std::int64_t>& info) {
  return hwy::TargetName(info.param);
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, CpuOptionFunctions, ::testing::ValuesIn(cpu::tile_targets()),
                         target_name);

}  // namespace
}  // namespace runmax::testing_cpu
