// The dropout generator against the published answers of Philox4x32-10, and the mask it makes.
#include "runmax/dropout.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace runmax {
namespace {

void expect_words(PhiloxCounter got, const std::uint32_t (&want)[4]) {
  for (int w = 0; w < 4; ++w) EXPECT_EQ(got.word[w], want[w]) << "word " << w;
}

// The three vectors that the authors publish with the generator (kat_vectors of Random123): all bits 0, all
// bits 1, and digits of pi.
TEST(Philox, GivesThePublishedAnswers) {
  expect_words(philox({}, {}), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xffffffff;
  expect_words(philox({{ones, ones, ones, ones}}, {{ones, ones}}),
               {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect_words(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}}),
               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

static_assert(philox({}, {}).word[0] == 0x6627e8d5, "usable where a constant is needed");

std::vector<bool> mask(std::uint64_t seed, std::uint64_t offset, std::int64_t batch, std::int64_t head,
                       double probability) {
  std::vector<bool> kept;
  const PhiloxKey key = dropout_key(seed, offset, batch, head);
  for (std::int64_t i = 0; i < 64; ++i)
    for (std::int64_t j = 0; j < 64; ++j)
      kept.push_back(dropout_keeps(key, dropout_threshold(probability), i, j));
  return kept;
}

TEST(DropoutMask, IsAFunctionOfEveryCoordinateAndOfNothingElse) {
  std::set<std::vector<bool>> seen;
  for (std::uint64_t seed :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32, std::uint64_t{1} << 63})
    for (std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 40})
      for (std::int64_t batch : {0, 1})
        for (std::int64_t head : {0, 1}) {
          EXPECT_TRUE(seen.insert(mask(seed, offset, batch, head, 0.5)).second)
              << "seed " << seed << " offset " << offset << " batch " << batch << " head " << head;
          EXPECT_EQ(mask(seed, offset, batch, head, 0.5), mask(seed, offset, batch, head, 0.5));
        }
}

// Rows and columns beyond 2^32 have numbers of their own.
TEST(DropoutMask, CountsQueriesAndKeysIn64Bits) {
  const PhiloxKey key = dropout_key(3, 0, 0, 0);
  const auto word = [&](std::int64_t i, std::int64_t j) {
    return philox(dropout_counter(i, j / 4), key).word[j % 4];
  };
  constexpr std::int64_t far = std::int64_t{1} << 34;
  const std::set<std::uint32_t> words{word(0, 0), word(far, 0), word(0, far), word(far, far), word(0, 1)};
  EXPECT_EQ(words.size(), 5u);
}

// Within five standard deviations: of the whole, of each row, and of neighbours agreeing.
TEST(DropoutMask, DropsAsOftenAsAskedAndNeighboursAreIndependent) {
  for (double probability : {0.0, 0.1, 0.25, 0.5, 0.9}) {
    const PhiloxKey key = dropout_key(11, 5, 2, 3);
    const std::uint32_t threshold = dropout_threshold(probability);
    constexpr std::int64_t rows = 200, keys = 500;
    std::int64_t dropped = 0, right_pairs = 0, lower_pairs = 0;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < keys; ++j) {
        const bool drops = !dropout_keeps(key, threshold, i, j);
        dropped += drops;
        right_pairs += drops && !dropout_keeps(key, threshold, i, j + 1);
        lower_pairs += drops && !dropout_keeps(key, threshold, i + 1, j);
      }
    const auto expect_rate = [&](std::int64_t count, double rate, const char* what) {
      const double n = rows * keys;
      EXPECT_NEAR(static_cast<double>(count), n * rate, 5 * std::sqrt(n * rate * (1 - rate)) + 1e-9)
          << what << " at " << probability;
    };
    expect_rate(dropped, probability, "dropped");
    expect_rate(right_pairs, probability * probability, "neighbours in a row");
    expect_rate(lower_pairs, probability * probability, "neighbours in a column");
  }
}

TEST(DropoutMask, ZeroDropsNothingAndALargerProbabilityDropsMore) {
  EXPECT_EQ(dropout_threshold(0.0), 0u);
  EXPECT_EQ(dropout_threshold(0.5), 0x80000000u);
  const std::vector<bool> some = mask(1, 2, 3, 4, 0.3), more = mask(1, 2, 3, 4, 0.6);
  for (std::size_t at = 0; at < some.size(); ++at) EXPECT_TRUE(some[at] || !more[at]);
}

}  // namespace
}  // namespace runmax
