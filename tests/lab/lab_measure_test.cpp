// The measuring kit on clocks and memory that the test makes up, and on this machine where that is cheap.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lab/data.hpp"
#include "lab/report.hpp"
#include "measure/cpu_cache.hpp"
#include "measure/fma_loop.hpp"
#include "measure/memory.hpp"
#include "measure/sampling.hpp"

namespace runmax::lab {
namespace {

TEST(Summary, MedianAndSpreadOfKnownSamples) {
  const Summary odd = summarize({5, 1, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.fastest, 1);
  EXPECT_EQ(odd.samples, 3);
  EXPECT_DOUBLE_EQ(odd.spread, 1.0 / 3) << "quartiles 2 and 4, half of their distance over 3";
  EXPECT_EQ(summarize({4, 1, 3, 2}).median, 2.5);
}

TEST(Summary, OneSampleHasNoSpreadAndNoneIsZero) {
  EXPECT_EQ(summarize({7}).median, 7);
  EXPECT_EQ(summarize({7}).spread, 0);
  EXPECT_EQ(summarize({}).samples, 0);
}

TEST(Summary, OneOutlierMovesNeitherMedianNorSpread) {
  EXPECT_EQ(summarize({1, 1, 1, 1, 1, 1, 1, 1, 1000}).median, 1);
  EXPECT_EQ(summarize({1, 1, 1, 1, 1, 1, 1, 1, 1000}).spread, 0);
}

TEST(Sampling, ShortRunsRepeatUntilThereIsEnoughTime) {
  int calls = 0;
  const auto summary = repeat({.enough_samples = 9, .enough_ms = 200}, [&]() -> Result<double> {
    ++calls;
    return 10.0;
  });
  EXPECT_EQ(calls, 20) << "20 samples of 10 ms are 200 ms";
  EXPECT_EQ(summary.value().samples, 20);
}

TEST(Sampling, SlowRunsStopAtTheLeastNumber) {
  int calls = 0;
  (void)repeat({.least_samples = 3, .patience_ms = 1500}, [&]() -> Result<double> {
    ++calls;
    return 800.0;
  });
  EXPECT_EQ(calls, 3);
}

TEST(Sampling, OneRunBeyondTheLimitIsEnough) {
  EXPECT_TRUE(enough({.limit_ms = 20000}, 1, 30000));
  EXPECT_FALSE(enough({.limit_ms = 20000}, 0, 30000)) << "nothing measured is never enough";
}

TEST(Sampling, AClockThatReadsZeroStillEnds) {
  int calls = 0;
  (void)repeat({.enough_samples = 3, .enough_ms = 0.001}, [&]() -> Result<double> {
    ++calls;
    return 0.0;
  });
  EXPECT_GE(calls, 3);
  EXPECT_LE(calls, 12);
}

TEST(Sampling, AnErrorEndsItAndIsReturned) {
  int calls = 0;
  const auto summary = repeat({}, [&]() -> Result<double> {
    if (++calls == 2) return Status(StatusCode::device_error, "gone");
    return 1.0;
  });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(summary.status().message(), "gone");
}

TEST(ShareOfPeak, AboveOneIsAnErrorNotAResult) {
  EXPECT_DOUBLE_EQ(share_of_peak(50e9, 1, 100e9).value(), 0.5);
  EXPECT_EQ(share_of_peak(101e9, 1, 100e9).value(), 1.0) << "within the spread of the two clocks";
  EXPECT_FALSE(share_of_peak(120e9, 1, 100e9).ok());
  EXPECT_FALSE(share_of_peak(1e9, 0, 100e9).ok()) << "no time at all";
  EXPECT_FALSE(share_of_peak(1e9, 1, 0).ok()) << "no peak";
  EXPECT_FALSE(share_of_peak(std::nan(""), 1, 1).ok());
}

TEST(MemoryLedger, KeepsTheMostThatWasHeldAtOnce) {
  MemoryLedger ledger;
  {
    const Buffer a = Buffer::allocate({}, 1000, ledger).value();
    { const Buffer b = Buffer::allocate({}, 500, ledger).value(); }
    const Buffer c = Buffer::allocate({}, 200, ledger).value();
    EXPECT_EQ(ledger.held(), 1200u);
  }
  EXPECT_EQ(ledger.held(), 0u);
  EXPECT_EQ(ledger.peak(), 1500u);
}

TEST(Buffer, OfZeroBytesHoldsNothingAndTooManyIsOutOfMemory) {
  MemoryLedger ledger;
  EXPECT_EQ(Buffer::allocate({}, 0, ledger).value().data(), nullptr);
  const Result<Buffer> huge = Buffer::allocate({}, std::size_t{1} << 60, ledger);
  EXPECT_EQ(huge.status().code(), StatusCode::out_of_memory);
  EXPECT_EQ(ledger.peak(), 0u);
}

TEST(SystemMemoryWatch, SeesTouchedPages) {
  const SystemMemoryWatch watch({});
  MemoryLedger ledger;
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const Buffer buffer = Buffer::allocate({}, bytes, ledger).value();
  std::memset(buffer.data(), 1, bytes);
  const std::optional<std::int64_t> rise = watch.rise();
  if (!rise) GTEST_SKIP() << "this system does not let a process reset its peak resident set";
  EXPECT_GE(*rise, std::int64_t{60} << 20);
}

TEST(CpuCache, HasAPlausibleSizeAndFlushingKeepsTheData) {
  EXPECT_GE(last_level_cache_bytes(), 16 * 1024);
  std::vector<char> data(1001, 7);
  flush_lines(data.data(), data.size());
  for (const char value : data) ASSERT_EQ(value, 7);
  flush_lines(nullptr, 0);
}

TEST(FmaLoop, CountsTwoFlopsALaneAndComputesWhatItSays) {
  const FmaWork one = fma_loop(1), two = fma_loop(2);
  EXPECT_GT(one.flops, 0);
  EXPECT_EQ(two.flops, 2 * one.flops);
  EXPECT_EQ(std::fmod(one.flops, 24), 0) << "twelve chains of at least one lane";
  // x -> 0.75 x + 0.25 tends to 1 in each of flops / 24 lanes of twelve chains.
  EXPECT_NEAR(fma_loop(1000).value, one.flops / 2, 1e-3 * one.flops);
}

TEST(GatedRows, AllUpTo8192AndASampleWithBothEndsBeyond) {
  EXPECT_EQ(gated_rows(1).size(), 1u);
  EXPECT_EQ(gated_rows(8192).size(), 8192u);
  const std::vector<std::int64_t> rows = gated_rows(131072);
  EXPECT_EQ(rows.size(), static_cast<std::size_t>(sampled_row_count));
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), 131071);
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
}

}  // namespace
}  // namespace runmax::lab
