// Visible pairs, flops and bytes, against counting by hand.
#include <gtest/gtest.h>

#include "runmax/problem.hpp"

namespace runmax {
namespace {

Problem problem(const std::string& text) { return parse_problem(text).value(); }

double counted_pairs(const Problem& p) {
  double pairs = 0;
  for (std::int64_t i = 0; i < p.query_len; ++i) {
    const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
    pairs += static_cast<double>(keys.end - keys.begin);
  }
  return pairs * static_cast<double>(p.batch * p.query_heads);
}

// The definition, key by key.
bool sees(const Problem& p, std::int64_t i, std::int64_t j) {
  const std::int64_t diagonal = i + (p.causal == Causal::top_left ? 0 : p.kv_len - p.query_len);
  return (p.causal == Causal::none || j <= diagonal) &&
         (p.window.left < 0 || j >= diagonal - p.window.left) &&
         (p.window.right < 0 || j <= diagonal + p.window.right);
}

TEST(ProblemCost, VisibleKeysFollowTheDefinitionAndPairsTheirCount) {
  for (const char* mask : {"", ":causal", ":causal=top_left"})
    for (const char* window :
         {"", ":window=0,0", ":window=3,0", ":window=1,2", ":window=-1,2", ":window=2,-1"})
      for (int q : {0, 1, 5, 8})
        for (int k : {0, 1, 3, 8, 13}) {
          const Problem p = problem("h2:q" + std::to_string(q) + ":k" + std::to_string(k) + mask + window);
          for (std::int64_t i = 0; i < q; ++i) {
            const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
            for (std::int64_t j = 0; j < k; ++j)
              ASSERT_EQ(j >= keys.begin && j < keys.end, sees(p, i, j))
                  << to_text(p) << " i=" << i << " j=" << j;
          }
          EXPECT_EQ(visible_pairs(p), counted_pairs(p)) << to_text(p);
        }
}

// O-128
TEST(ProblemCost, FlopsCountVisibleKeysOnly) {
  EXPECT_EQ(forward_flops(problem("q1024:d64")), 268435456.0);
  EXPECT_EQ(forward_flops(problem("q1024:d64:causal")), 134348800.0);
}

// O-129
TEST(ProblemCost, PackedBatchesCountTrueLengths) {
  EXPECT_EQ(forward_flops(problem("varlen=1,1000:d64")), 256000256.0);
}

TEST(ProblemCost, TheMatrixOfOneLongHeadIs64GiB) {
  EXPECT_EQ(score_matrix_bytes(problem("q131072:d64")), 64.0 * 1024 * 1024 * 1024);
}

TEST(ProblemCost, MinimumBytesAreInputsOnceAndOutputsOnce) {
  EXPECT_EQ(minimum_bytes(problem("q4096:d64")), 16.0 * 4096 * 64 + 4 * 4096);
}

TEST(ProblemCost, DefaultScaleIsThatOfTheTrueHeadSize) {
  EXPECT_EQ(effective_scale(problem("q8:d64")), 0.125);
  EXPECT_EQ(effective_scale(problem("q8:d0")), 1.0);
  EXPECT_EQ(effective_scale(problem("q8:d64:scale=2")), 2.0);
}

}  // namespace
}  // namespace runmax
