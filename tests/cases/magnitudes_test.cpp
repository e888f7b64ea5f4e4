// Kinds 10 and 11: large scores, and long contexts.
#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

TEST_P(Case, O030_TheLargestScoreAlwaysHasWeightOne) {
  const Problem p = problem("q1:d64");
  const auto answer =
      run(p, constant(q_shape(p), 150528), constant(k_shape(p), 150528), constant(v_shape(p), 150528));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 150528, 150528);
  expect_lse(*answer, 0, 0, 0, 1.8126943e11);
}

TEST_P(Case, O031_ScoresAreHeldInF32) {
  const Problem p = problem("q1:k2:d128");
  const auto answer = run(p, constant(q_shape(p), 64), constant(k_shape(p), 64), rows({2, 6}, 128));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 4, 6);
  EXPECT_NEAR(answer->lse.at(0, 0, 0), 46341.643, 0.01);
}

TEST_P(Case, O032_ShiftingAllScoresChangesTheLseAlone) {
  const Problem p = problem("q1:k2:d1:scale=1");
  const auto answer = run(p, rows({-256}), rows({256, 256}), rows({2, 6}));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 4, 6);
  EXPECT_NEAR(answer->lse.at(0, 0, 0), -65535.3069, 0.01);
}

// A plain sequential sum loses the small weights behind the hot key, eps * n / 2 of them: docs/numerics.md.
// The engine must not; the baselines are held to what they promise.
TEST_P(Case, O034_TheAnswerDoesNotDependOnWhereTheHotKeyLies) {
  const std::int64_t n = 65536;
  const Problem p = problem("q1:k65536:d1:scale=1");
  for (const std::int64_t hot : {std::int64_t{0}, n / 2, n - 1}) {
    std::vector<float> k(static_cast<std::size_t>(n), 0), v(static_cast<std::size_t>(n), 1000);
    k[static_cast<std::size_t>(hot)] = 20;
    v[static_cast<std::size_t>(hot)] = 0;
    const auto answer = run(p, rows({1}), rows(k), rows(v));
    if (!answer) return;
    const double allowed = is_engine() ? 0 : 0x1p-24 * static_cast<double>(n);
    EXPECT_NEAR(answer->o.at(0, 0, 0), 0.1350595, 1e-5 + allowed * 0.1350595) << "hot key " << hot;
    EXPECT_NEAR(answer->lse.at(0, 0, 0), 20.000135, 4e-5 + allowed) << "hot key " << hot;
  }
}

TEST_P(Case, O035_NothingOverflowsAtAnyLength) {
  for (const char* text : {"q1:k65536:d64", "q1:k1048576:d4"}) {
    const Problem p = problem(text);
    const auto answer = run(p, equal_scores(p, constant(v_shape(p), 2)));
    if (!answer) continue;
    for (std::int64_t c = 0; c < p.value_dim; ++c) EXPECT_EQ(answer->o.at(0, 0, 0, c), 2.0f) << text;
    expect_lse(*answer, 0, 0, 0, std::log(static_cast<double>(p.kv_len)));
  }
}

// The range of docs/numerics.md: the output is carried undivided, N times as large.
TEST_P(Case, ValuesUpToTheRangeOverTheLengthStayFinite) {
  const Problem p = problem("q3:k4096:d64");
  const float largest = 0x1.fp+114f;
  const auto answer = run(p, equal_scores(p, constant(v_shape(p), largest)));
  if (!answer) return;
  for (std::int64_t c = 0; c < p.value_dim; ++c)
    EXPECT_NEAR(answer->o.at(0, 0, 2, c) / largest, 1, 1e-5) << "channel " << c;
}

// Rows of V 2^30 apart, and one of zeros, which has no exponent of its own.
TEST_P(Case, ARowOfZerosBesideHugeValuesWeighsNothing) {
  const Problem p = problem("q3:k3:d64");
  const auto answer = run(p, equal_scores(p, rows({0, 0x1p110f, 0x1p80f}, 64)));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, (0x1p110 + 0x1p80) / 3, 0x1p110);
  expect_row(*answer, 0, 0, 2, (0x1p110 + 0x1p80) / 3, 0x1p110);
}

}  // namespace
}  // namespace runmax::kit
