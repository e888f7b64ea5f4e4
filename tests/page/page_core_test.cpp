// The arithmetic of the page: its fixed exp, its sweep by three rules, and its tree of merges.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "inputs/random.hpp"
#include "page/wasm/row.hpp"

namespace runmax {
namespace page {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

Row row_of(const std::vector<float>& scores) {
  Row row = {};
  inputs::Random random(7);
  for (int j = 0; j < max_keys; ++j) {
    row.scores[j] = j < static_cast<int>(scores.size()) ? scores[j] : 0;
    for (float& value : row.values[j]) value = random.normal();
    row.values[j][0] = 1;
  }
  return row;
}

Row random_row(std::uint64_t seed, float size) {
  inputs::Random random(seed, 1);
  std::vector<float> scores(max_keys);
  for (float& score : scores) score = size * random.normal();
  return row_of(scores);
}

TileStep last_step(const Row& row, int tile, Rule rule) {
  TileStep steps[max_keys];
  return steps[sweep(row, max_keys, tile, rule, steps) - 1];
}

TEST(FixedExp, IsWithinTwoUlpOfExpForEveryKindOfArgument) {
  double worst = 0;
  for (int i = -1040000; i <= 887000; ++i) {
    const float x = static_cast<float>(i) * 1e-4f;
    const double want = std::exp(static_cast<double>(x));
    const float rounded = static_cast<float>(want);
    const double ulp = std::max(static_cast<double>(std::nextafter(rounded, infinity)) - rounded,
                                static_cast<double>(std::numeric_limits<float>::denorm_min()));
    worst = std::max(worst, std::abs(FixedExp()(x) - want) / ulp);
  }
  EXPECT_LT(worst, 2.0);
  double worst_double = 0;
  for (int i = -70000; i <= 70000; ++i) {
    const double x = i * 0.01;
    worst_double = std::max(worst_double, std::abs(FixedExp()(x) / std::exp(x) - 1));
  }
  EXPECT_LT(worst_double, 1e-15);
}

TEST(FixedExp, KeepsThePromisesOfTheExpPolicy) {
  EXPECT_EQ(FixedExp()(0.0f), 1.0f);
  EXPECT_EQ(FixedExp()(-0.0f), 1.0f);
  EXPECT_EQ(FixedExp()(-infinity), 0.0f);
  EXPECT_EQ(FixedExp()(infinity), infinity);
  EXPECT_EQ(FixedExp()(1e30f), infinity);
  EXPECT_EQ(FixedExp()(-1e30f), 0.0f);
  EXPECT_TRUE(std::isnan(FixedExp()(std::nanf(""))));
  EXPECT_EQ(FixedExp()(0.0), 1.0);
  EXPECT_EQ(FixedExp()(-static_cast<double>(infinity)), 0.0);
  EXPECT_TRUE(std::isnan(FixedExp()(std::nan(""))));
}

TEST(PageRow, OnlineIsTheLibrarysStateToTheRoundingOfExpAndOrder) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    for (const float size : {0.0f, 1.0f, 30.0f}) {
      const Row row = random_row(seed, size);
      AttentionState<double, value_dim> state;
      for (int j = 0; j < max_keys; ++j) {
        double value[value_dim];
        std::copy(row.values[j], row.values[j] + value_dim, value);
        state.add(static_cast<double>(row.scores[j]), value, StandardExp());
      }
      double truth[value_dim];
      plain_softmax(row, max_keys, truth);
      for (int tile = 1; tile <= max_keys; ++tile) {
        const TileStep step = last_step(row, tile, Rule::online);
        EXPECT_EQ(step.max, static_cast<float>(state.softmax.max));
        EXPECT_NEAR(step.sum / state.softmax.sum, 1, 3e-6);
        EXPECT_NEAR(step.lse, softmax_lse(state.softmax), 1e-5 + 3e-7 * std::abs(step.lse));
        for (int c = 0; c < value_dim; ++c) {
          EXPECT_NEAR(step.result[c], state.out[c] / state.softmax.sum, 1e-5);
          EXPECT_NEAR(truth[c], state.out[c] / state.softmax.sum, 1e-13);
        }
      }
    }
}

TEST(PageRow, TheOutputThatIsNotRescaledIsRightUntilTheMaximumMoves) {
  std::vector<float> scores{2, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 4, 1, 0};
  const Row late = row_of(scores);
  TileStep online[max_keys], faulty[max_keys];
  ASSERT_EQ(sweep(late, max_keys, 4, Rule::online, online), 4);
  sweep(late, max_keys, 4, Rule::output_not_rescaled, faulty);
  for (int tile = 0; tile < 3; ++tile) EXPECT_EQ(faulty[tile].result[0], online[tile].result[0]) << tile;
  EXPECT_NEAR(online[3].result[0], 1, 1e-6);
  EXPECT_GT(faulty[3].result[0], 1.5f);  // the values are all 1 there, so no average can be

  std::swap(scores[0], scores[13]);
  const Row early = row_of(scores);
  EXPECT_EQ(last_step(early, 4, Rule::output_not_rescaled).result[0],
            last_step(early, 4, Rule::online).result[0]);
}

TEST(PageRow, NormalizedPerTileIsRightForOneTileAndDoesNotSumToOneForMore) {
  const Row row = row_of({2, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 4, 1, 0});
  EXPECT_NEAR(last_step(row, 16, Rule::normalized_per_tile).result[0], 1, 1e-6);
  EXPECT_LT(last_step(row, 4, Rule::normalized_per_tile).result[0], 0.95f);
}

TEST(PageRow, ARowOfMinusInfinityIsZeroAndANanShows) {
  const TileStep nothing = last_step(row_of(std::vector<float>(16, -infinity)), 4, Rule::online);
  EXPECT_EQ(nothing.max, -infinity);
  EXPECT_EQ(nothing.sum, 0.0f);
  EXPECT_EQ(nothing.lse, -infinity);
  for (const float result : nothing.result) EXPECT_EQ(result, 0.0f);
  double truth[value_dim];
  plain_softmax(row_of(std::vector<float>(16, -infinity)), 16, truth);
  EXPECT_EQ(truth[0], 0.0);

  std::vector<float> scores(16, 1.0f);
  scores[5] = std::nanf("");
  TileStep steps[max_keys];
  sweep(row_of(scores), max_keys, 4, Rule::online, steps);
  EXPECT_NEAR(steps[0].result[0], 1, 1e-6);
  for (const int tile : {1, 2, 3}) EXPECT_TRUE(std::isnan(steps[tile].result[0])) << tile;
}

TEST(PageMerge, AnySplitMergesToTheWholeRow) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed)
    for (const float size : {1.0f, 30.0f}) {
      const Row row = random_row(seed, size);
      const TileStep whole = last_step(row, 4, Rule::online);
      for (int cut = 0; cut <= max_keys; ++cut) {
        const Node merged = merge(leaf(row, 0, cut, 4), leaf(row, cut, max_keys, 4));
        EXPECT_EQ(merged.max, whole.max);
        EXPECT_NEAR(merged.sum / whole.sum, 1, 3e-6);
        for (int c = 0; c < value_dim; ++c) EXPECT_NEAR(merged.result[c], whole.result[c], 1e-5);
        if (cut == 0 || cut == max_keys) {
          EXPECT_EQ((cut == 0 ? merged.scale_left : merged.scale_right), 0.0f)
              << "the empty side has no weight";
        }
      }
    }
}

}  // namespace
}  // namespace page
}  // namespace runmax
