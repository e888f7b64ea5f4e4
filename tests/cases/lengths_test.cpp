// Kind 04: lengths that are no multiple of any tile.
#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

constexpr std::int64_t hostile_lengths[] = {1,  2,  3,   15,  16,  17,  31,  32,  33,  47, 63,
                                            64, 65, 127, 128, 129, 192, 193, 255, 256, 257};

TEST_P(Case, O010_EveryLengthOnBothSidesOfEveryTileBoundary) {
  for (const std::int64_t n : {1, 15, 17, 63, 65, 127, 129, 192, 193, 255, 257}) {
    const Problem p = problem("q" + std::to_string(n) + ":d16");
    const auto answer = run(p, mean_index(p));
    if (!answer) continue;
    expect_all(*answer, static_cast<double>(n - 1) / 2, static_cast<double>(n),
               std::log(static_cast<double>(n)));
  }
}

TEST_P(Case, O010_QueryAndKeyLengthsIndependently) {
  for (const std::int64_t q : {1, 31, 33, 64, 127, 193})
    for (const std::int64_t k : hostile_lengths) {
      const Problem p = problem("q" + std::to_string(q) + ":k" + std::to_string(k) + ":d20");
      const auto answer = run(p, mean_index(p));
      if (!answer) continue;
      expect_all(*answer, static_cast<double>(k - 1) / 2, static_cast<double>(k),
                 std::log(static_cast<double>(k)));
    }
}

TEST_P(Case, O010_CausalLengthsOnBothSidesOfEveryTileBoundary) {
  for (const std::int64_t q : {1, 33, 65, 129})
    for (const std::int64_t k : {1, 31, 64, 65, 130, 257}) {
      const Problem p = problem("q" + std::to_string(q) + ":k" + std::to_string(k) + ":d8:causal");
      const auto answer = run(p, mean_index(p));
      if (!answer) continue;
      for (std::int64_t i = 0; i < q; ++i) {
        const std::int64_t visible = i + k - q + 1;
        if (visible <= 0) {
          expect_empty_row(*answer, 0, 0, i);
        } else {
          expect_row(*answer, 0, 0, i, static_cast<double>(visible - 1) / 2, static_cast<double>(k));
          expect_lse(*answer, 0, 0, i, std::log(static_cast<double>(visible)));
        }
      }
    }
}

TEST_P(Case, O011_WithVAllOnesTheOutputIsOne) {
  // In f32 the sum n of the weights is exact and its reciprocal is rounded once: one unit in the last place.
  for (const std::int64_t k : {1, 15, 17, 255, 257}) {
    const Problem p = problem("q1:k" + std::to_string(k) + ":d128");
    const auto answer = run(p, equal_scores(p, constant(v_shape(p), 1)));
    if (!answer) continue;
    for (std::int64_t c = 0; c < 128; ++c) ASSERT_NEAR(answer->o.at(0, 0, 0, c), 1, 0x1p-23) << k;
    expect_lse(*answer, 0, 0, 0, std::log(static_cast<double>(k)));
  }
}

TEST_P(Case, O013_PartialTilesWithStronglyNegativeScores) {
  for (const std::int64_t n : {33, 64, 96, 100, 192}) {
    const Problem p = problem("q" + std::to_string(n) + ":d64");
    const auto answer =
        run(p, constant(q_shape(p), 4), constant(k_shape(p), -6.25f), constant(v_shape(p), 1));
    if (!answer) continue;
    expect_all(*answer, 1, 1, -200 + std::log(static_cast<double>(n)));
  }
}

}  // namespace
}  // namespace runmax::kit
