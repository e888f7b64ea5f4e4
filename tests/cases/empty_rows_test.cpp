// Kinds 01, 05 and 06: rows without a visible key, more queries than keys under causal, and empty inputs.
#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

TEST_P(Case, O001_RowThatSeesNothingIsZeroAndItsNeighboursAreUnaffected) {
  // Row 0 sees no key by causality, row 1 by nothing but itself.
  const Problem p = problem("q2:k1:d1:scale=1:causal");
  const auto answer = run(p, constant(q_shape(p), 1), constant(k_shape(p), 0), rows({4}));
  if (!answer) return;
  expect_empty_row(*answer, 0, 0, 0);
  expect_row(*answer, 0, 0, 1, 4, 4);
  expect_lse(*answer, 0, 0, 1, 0);
}

TEST_P(Case, O001_RowsBeyondAWindowAreZero) {
  // Row i sees keys i + 6 and i + 7 of 8 at best; rows 2 and later see none.
  const Problem p = problem("q8:k2:d4:window=0,1:causal=top_left");
  const auto answer = run(p, mean_index(p));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 0, 1);
  expect_row(*answer, 0, 0, 1, 1, 1);
  for (std::int64_t i = 2; i < 8; ++i) expect_empty_row(*answer, 0, 0, i);
}

TEST_P(Case, O014_MoreQueriesThanKeysUnderCausal) {
  const Problem p = problem("q5:k2:d1:scale=1:causal");
  const auto answer = run(p, equal_scores(p, rows({10, 20})));
  if (!answer) return;
  for (std::int64_t i = 0; i < 3; ++i) expect_empty_row(*answer, 0, 0, i);
  expect_row(*answer, 0, 0, 3, 10, 20);
  expect_lse(*answer, 0, 0, 3, 0);
  expect_row(*answer, 0, 0, 4, 15, 20);
  expect_lse(*answer, 0, 0, 4, 0.69314718);
}

TEST_P(Case, O014_ManyMoreQueriesThanKeysUnderCausal) {
  const Problem p = problem("q1024:k512:d16:causal");
  const auto answer = run(p, mean_index(p));
  if (!answer) return;
  for (std::int64_t i = 0; i < 512; ++i) expect_empty_row(*answer, 0, 0, i);
  for (std::int64_t i = 512; i < 1024; ++i) {
    expect_row(*answer, 0, 0, i, static_cast<double>(i - 512) / 2, 511);
    expect_lse(*answer, 0, 0, i, std::log(static_cast<double>(i - 511)));
  }
}

TEST_P(Case, O015_LseOfAnEmptyRowMergesAsNothing) {
  const Problem p = problem("q17:k16:d8:causal");
  const auto answer = run(p, mean_index(p));
  if (!answer) return;
  expect_empty_row(*answer, 0, 0, 0);
  HostTensor o = answer->o, lse = answer->lse, other_o = constant(o.shape, 3),
             other_lse = constant(lse.shape, 0);
  ASSERT_TRUE(merge(o.view(o.storage.data(), {}), lse.view(lse.storage.data(), {}),
                    other_o.view(other_o.storage.data(), {}), other_lse.view(other_lse.storage.data(), {}),
                    o.view(o.storage.data(), {}), lse.view(lse.storage.data(), {}))
                  .ok());
  for (std::int64_t c = 0; c < 8; ++c) EXPECT_EQ(o.at(0, 0, 0, c), 3.0f);
  EXPECT_EQ(lse.at(0, 0, 0), 0.0f);
}

TEST_P(Case, O016_ZeroBatchAndZeroHeadsSucceed) {
  for (const char* text : {"b0:h10:q16:k16:d64", "b2:h0:q16:k16:d64"}) {
    const Problem p = problem(text);
    const auto answer = run(p, mean_index(p));
    if (!answer) continue;
    EXPECT_EQ(answer->o.elements(), 0);
    EXPECT_EQ(answer->o.shape, q_shape(p));
  }
}

TEST_P(Case, O017_NoKeysAreZerosAndMinusInfinity) {
  for (const char* text : {"b2:h3:q4:k0:d64", "b2:h3:q4:k0:d64:causal"}) {
    const Problem p = problem(text);
    const auto answer = run(p, mean_index(p));
    if (!answer) continue;
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t h = 0; h < 3; ++h)
        for (std::int64_t i = 0; i < 4; ++i) expect_empty_row(*answer, b, h, i);
  }
}

TEST_P(Case, O018_PlanningCopesWithNoWorkInAnyDimension) {
  for (const char* text : {"b2:h4:q0:k4096:d64", "b0:q64:d64", "q64:d64:dv0", "q3:k5:d0:dv4", "h0:q64:d64"})
    for (const int splits : {0, 1, 7}) {
      const Problem p = problem(text);
      PlanOptions with_splits = options();
      with_splits.num_splits = splits;
      const Operands in = mean_index(p);
      const auto answer = run(p, in.q, in.k, in.v, with_splits);
      if (!answer) continue;
      EXPECT_GE(answer->plan.num_splits, 0) << text;
      if (p.query_len != 0 && p.query_heads != 0 && p.batch != 0)
        for (std::int64_t i = 0; i < p.query_len; ++i)
          expect_lse(*answer, 0, 0, i, std::log(static_cast<double>(p.kv_len)));
    }
}

}  // namespace
}  // namespace runmax::kit
