// The lesson's byte and flop arithmetic against its published figures.
#include "lesson/costs.hpp"

#include <gtest/gtest.h>

namespace runmax {
namespace lesson {
namespace {

constexpr std::int64_t mib = 1024 * 1024;

TEST(Costs, At4096TheMatrixIs64MiBAndNaiveMoves324MiBAgainst4) {
  const Costs c = attention_costs(4096, 64);
  EXPECT_EQ(c.score_bytes, 64 * mib);
  EXPECT_EQ(c.skipped_bytes, 320 * mib);
  EXPECT_EQ(c.naive_bytes, 324 * mib);
  EXPECT_EQ(c.floor_bytes, 4 * mib);
  EXPECT_EQ(c.ratio, 81.0);
}

TEST(Costs, OnlineAsksForKeysAndValuesOncePerBlockOf64Queries) {
  // 64 blocks times 2 MiB of K and V, plus Q and O once.
  EXPECT_EQ(attention_costs(4096, 64).online_requested_bytes, (64 * 2 + 2) * mib);
  // A partial block still sweeps all keys.
  EXPECT_EQ(attention_costs(65, 64).online_requested_bytes, 8 * 65 * 64 + 2 * 8 * 65 * 64);
  EXPECT_EQ(attention_costs(1, 64).online_requested_bytes, 2 * 8 * 64);
}

TEST(Costs, NaiveIntensityDoesNotDependOnNAndOnlineIsNOver4) {
  for (std::int64_t n : {1, 255, 256, 1024, 4096, 131072}) {
    const Costs c = attention_costs(n, 64);
    EXPECT_DOUBLE_EQ(c.naive_intensity, 12.8) << n;
    EXPECT_DOUBLE_EQ(c.online_intensity, static_cast<double>(n) / 4) << n;
    EXPECT_DOUBLE_EQ(c.flops, 4.0 * static_cast<double>(n) * static_cast<double>(n) * 64) << n;
  }
}

TEST(Costs, At131072OneHeadsMatrixIs64GiBWithoutOverflow) {
  const Costs c = attention_costs(131072, 64);
  EXPECT_EQ(c.score_bytes, 64 * 1024 * mib);
  EXPECT_EQ(c.naive_bytes, 20 * std::int64_t{131072} * 131072 + 16 * std::int64_t{131072} * 64);
}

TEST(Costs, NaiveRunsOnlyIfBothMatricesFitIn80PercentOfFreeMemory) {
  // N = 1024: two matrices of 4 MiB need 10 MiB of free memory.
  EXPECT_TRUE(naive_fits(1024, 10 * mib));
  EXPECT_FALSE(naive_fits(1024, 10 * mib - 1));
  EXPECT_FALSE(naive_fits(131072, 141 * 1024 * mib)) << "128 GiB do not fit in 80 % of 141 GiB";
  EXPECT_TRUE(naive_fits(131072, 161 * 1024 * mib));
  EXPECT_FALSE(naive_fits(1, 0));
}

TEST(Costs, TheRidgePointOfTheLessonsCard) {
  EXPECT_NEAR(ridge_point(8.1e12, 276e9), 29.35, 0.01);
  EXPECT_DOUBLE_EQ(milliseconds_for(320e6, 320e9), 1.0);
}

}  // namespace
}  // namespace lesson
}  // namespace runmax
