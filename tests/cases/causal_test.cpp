// Kind 13: where the causal diagonal lies.
#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

TEST_P(Case, O038_CausalIsBottomRightAndTopLeftHasItsOwnName) {
  const Problem p = problem("q1:k4:d1:scale=1:causal");
  const auto answer = run(p, equal_scores(p, rows({1, 2, 3, 4})));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 2.5, 4);
  expect_lse(*answer, 0, 0, 0, 1.386294);
}

TEST_P(Case, O038_TopLeftByName) {
  const Problem p = problem("q1:k4:d1:scale=1:causal=top_left");
  const auto answer = run(p, equal_scores(p, rows({1, 2, 3, 4})));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 1, 4);
  expect_lse(*answer, 0, 0, 0, 0);
}

TEST_P(Case, O039_EveryPathUsesOneAlignment) {
  const Problem p = problem("q2:k5:d1:scale=1:causal");
  const auto answer = run(p, equal_scores(p, rows({0, 10, 20, 30, 40})));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 15, 40);
  expect_row(*answer, 0, 0, 1, 20, 40);
  expect_lse(*answer, 0, 0, 0, 1.386294);
  expect_lse(*answer, 0, 0, 1, 1.609438);
}

TEST_P(Case, O039_LongerOperandsUnderSplits) {
  for (const int splits : {1, 2, 5}) {
    const Problem p = problem("q70:k333:d8:causal");
    PlanOptions with_splits = options();
    with_splits.num_splits = splits;
    const Operands in = mean_index(p);
    const auto answer = run(p, in.q, in.k, in.v, with_splits);
    if (!answer) continue;
    for (std::int64_t i = 0; i < 70; ++i) {
      expect_row(*answer, 0, 0, i, static_cast<double>(i + 263) / 2, 332);
      expect_lse(*answer, 0, 0, i, std::log(static_cast<double>(i + 264)));
    }
  }
}

// Every head has an odd number of query blocks, and all of them are more than a GPU has multiprocessors.
TEST_P(Case, O039_ManyHeadsOfAnOddNumberOfBlocks) {
  for (const int splits : {1, 3}) {
    const Problem p = problem("hq66:hk1:q390:d8:causal");
    PlanOptions with_splits = options();
    with_splits.num_splits = splits;
    const Operands in = mean_index(p);
    const auto answer = run(p, in.q, in.k, in.v, with_splits);
    if (!answer) continue;
    for (std::int64_t h = 0; h < 66; ++h)
      for (std::int64_t i = 0; i < 390; ++i) {
        expect_row(*answer, 0, h, i, static_cast<double>(i) / 2, 389);
        expect_lse(*answer, 0, h, i, std::log(static_cast<double>(i + 1)));
      }
  }
}

}  // namespace
}  // namespace runmax::kit
