// Kinds 02 and 03: -inf scores in whole blocks, extreme values, and infinities or NaN in memory that is not
// used, or that is.
#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

TEST_P(Case, O003_BlocksThatAreWhollyMinusInfinityAreSurvived) {
  // The same with K as the source of -inf: leading, trailing and middle blocks.
  const std::int64_t first_live[] = {640, 0, 320};
  for (const std::int64_t live : first_live) {
    std::vector<float> k(650, -infinity);
    double mean = 0;
    for (std::int64_t j = live; j < live + 10; ++j) {
      k[static_cast<std::size_t>(j)] = 0;
      mean += static_cast<double>(j) / 10;
    }
    const Problem p = problem("q1:k650:d1:scale=1");
    const auto answer = run(p, rows({1}), rows(k), row_indices(v_shape(p)));
    if (!answer) return;
    expect_row(*answer, 0, 0, 0, mean, 649);
    expect_lse(*answer, 0, 0, 0, std::log(10.0));
  }
}

TEST_P(Case, O003_ARowOfScoresThatAreAllMinusInfinityIsLikeAnEmptyOne) {
  if (!is_engine()) GTEST_SKIP() << "a baseline divides by the sum as the lesson does, and that is 0 here";
  const Problem p = problem("q1:k70:d1:scale=1");
  const auto answer = run(p, rows({1}), rows(std::vector<float>(70, -infinity)), row_indices(v_shape(p)));
  if (answer) expect_empty_row(*answer, 0, 0, 0);
}

TEST_P(Case, O004_MaskingIsStructuralHoweverLowTheVisibleScoresAre) {
  // Row 0 sees key 0 alone, with the score -30000; key 1 would score 0.
  const Problem p = problem("q2:k2:d1:scale=1:causal");
  const auto answer = run(p, rows({-30000, -30000}), rows({1, 0}), rows({5, 90}));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 5, 5);
  expect_lse(*answer, 0, 0, 0, -30000);
  expect_row(*answer, 0, 0, 1, 90, 90);
}

TEST_P(Case, O005_TheLowestFiniteScoreIsNotAMask) {
  const Problem p = problem("q1:k3:d1:scale=1");
  const auto answer = run(p, rows({1}), rows(std::vector<float>(3, -3.4028235e38f)), rows({3, 6, 9}));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 6, 9);
  expect_lse(*answer, 0, 0, 0, -3.4028235e38);
}

TEST_P(Case, O006_MemoryBeyondTheLengthMayHoldAnything) {
  const Problem p = problem("q1:k1:d64");
  for (const float poison : {not_a_number, infinity, -infinity}) {
    // A capacity of 8 slots, of which one is used.
    HostTensor k = constant({1, 1, 8, 64}, poison), v = constant({1, 1, 8, 64}, poison);
    k.shape[2] = v.shape[2] = 1;
    for (std::int64_t c = 0; c < 64; ++c) {
      k.at(0, 0, 0, c) = 0.5f;
      v.at(0, 0, 0, c) = 0.25f;
    }
    const auto answer = run(p, constant(q_shape(p), 0.5f), k, v);
    if (!answer) return;
    expect_row(*answer, 0, 0, 0, 0.25, 0.25);
    expect_lse(*answer, 0, 0, 0, 2);
  }
}

TEST_P(Case, O006_LengthsOnBothSidesOfATileEndAtTheirLastKey) {
  for (const std::int64_t kv_len : {1, 15, 31, 33, 63, 65, 127, 129, 191, 257}) {
    const Problem p = problem("q3:k" + std::to_string(kv_len) + ":d40");
    HostTensor k = constant({1, 1, kv_len + 300, 40}, not_a_number), v = k;
    k.shape[2] = v.shape[2] = kv_len;
    for (std::int64_t j = 0; j < kv_len; ++j)
      for (std::int64_t c = 0; c < 40; ++c) {
        k.at(0, 0, j, c) = 0;
        v.at(0, 0, j, c) = static_cast<float>(j);
      }
    const auto answer = run(p, constant(q_shape(p), 1), k, v);
    if (!answer) continue;
    expect_all(*answer, static_cast<double>(kv_len - 1) / 2, static_cast<double>(kv_len),
               std::log(static_cast<double>(kv_len)));
  }
}

TEST_P(Case, O007_KeysExcludedByCausalityOrAWindowAreNotRead) {
  for (const float poison : {not_a_number, infinity}) {
    const Problem causal = problem("q2:k2:d1:scale=1:causal");
    const auto by_causality = run(causal, rows({1, 1}), rows({0, poison}), rows({7, poison}));
    if (!by_causality) continue;
    expect_row(*by_causality, 0, 0, 0, 7, 7);
    expect_lse(*by_causality, 0, 0, 0, 0);
  }
  for (const float poison : {not_a_number, infinity}) {
    const Problem window = problem("q1:k2:d1:scale=1:window=0,0");  // the one row sees the last key
    const auto by_window = run(window, rows({1}), rows({poison, 0}), rows({poison, 7}));
    if (!by_window) continue;
    expect_row(*by_window, 0, 0, 0, 7, 7);
    expect_lse(*by_window, 0, 0, 0, 0);
  }
}

TEST_P(Case, O007_ANaNKeyShowsOnlyInTheRowsThatSeeIt) {
  // Row i sees keys 0..i; key 100 is NaN in K and key 150 in V.
  const Problem p = problem("q200:d24:causal");
  Operands in = mean_index(p);
  in.q = constant(q_shape(p), 0.25f);
  in.k.at(0, 0, 100, 3) = not_a_number;
  in.v.at(0, 0, 150, 5) = not_a_number;
  const auto answer = run(p, in);
  if (!answer) return;
  for (std::int64_t i = 0; i < 200; ++i)
    for (std::int64_t c = 0; c < 24; ++c)
      ASSERT_EQ(std::isnan(answer->o.at(0, 0, i, c)), i >= 100) << "row " << i << " channel " << c;
  for (std::int64_t i = 0; i < 200; ++i)
    ASSERT_EQ(std::isnan(answer->lse.at(0, 0, i)), i >= 100) << "row " << i;
}

TEST_P(Case, O008_AVisibleNaNInVShowsInItsChannelAlone) {
  const Problem p = problem("q70:k90:d24");
  Operands in = mean_index(p);
  in.v.at(0, 0, 77, 5) = not_a_number;
  const auto answer = run(p, in);
  if (!answer) return;
  for (std::int64_t i = 0; i < 70; ++i) {
    for (std::int64_t c = 0; c < 24; ++c)
      ASSERT_EQ(std::isnan(answer->o.at(0, 0, i, c)), c == 5) << "row " << i << " channel " << c;
    expect_lse(*answer, 0, 0, i, std::log(90.0));
  }
}

TEST_P(Case, O008_AUsedNaNShowsInItsRowAndOnlyThere) {
  const Problem p = problem("q2:k2:d2");
  HostTensor q = constant(q_shape(p), 0);
  q.at(0, 0, 0, 0) = not_a_number;
  const auto answer = run(p, q, constant(k_shape(p), 0), rows({2, 6}, 2));
  if (!answer) return;
  for (std::int64_t c = 0; c < 2; ++c) EXPECT_TRUE(std::isnan(answer->o.at(0, 0, 0, c)));
  EXPECT_TRUE(std::isnan(answer->lse.at(0, 0, 0)));
  expect_row(*answer, 0, 0, 1, 4, 6);
  expect_lse(*answer, 0, 0, 1, 0.69314718);
}

TEST_P(Case, O008_ANaNQueryAmongManyIsAlone) {
  for (const std::int64_t bad : {0, 1, 31, 63, 64, 129}) {
    const Problem p = problem("q130:k97:d33");
    Operands in = mean_index(p);
    in.q.at(0, 0, bad, 7) = not_a_number;
    const auto answer = run(p, in);
    if (!answer) return;
    for (std::int64_t i = 0; i < 130; ++i) {
      if (i == bad) {
        for (std::int64_t c = 0; c < 33; ++c) ASSERT_TRUE(std::isnan(answer->o.at(0, 0, i, c))) << i;
        ASSERT_TRUE(std::isnan(answer->lse.at(0, 0, i))) << i;
      } else {
        expect_row(*answer, 0, 0, i, 48, 96);
        expect_lse(*answer, 0, 0, i, std::log(97.0));
      }
    }
  }
}

TEST_P(Case, O008_AVisibleInfinityGivesWhatTheDefinitionGives) {
  // +inf in K: inf - inf in the weights. -inf in K: no weight. inf in V: its own sign wherever it has weight.
  const Problem p = problem("q1:k3:d1:scale=1");
  const auto plus = run(p, rows({1}), rows({0, infinity, 0}), rows({1, 2, 3}));
  if (!plus) return;
  EXPECT_TRUE(std::isnan(plus->o.at(0, 0, 0)));
  EXPECT_TRUE(std::isnan(plus->lse.at(0, 0, 0)));
  const auto minus = run(p, rows({1}), rows({0, -infinity, 0}), rows({1, 2, 3}));
  expect_row(*minus, 0, 0, 0, 2, 3);
  expect_lse(*minus, 0, 0, 0, 0.69314718);
  const auto in_v = run(p, rows({1}), rows({0, 0, 0}), rows({1, -infinity, 3}));
  EXPECT_EQ(in_v->o.at(0, 0, 0), -infinity);
  expect_lse(*in_v, 0, 0, 0, 1.0986123);
}

}  // namespace
}  // namespace runmax::kit
