// Kind 09: head sizes.
#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

TEST_P(Case, O027_EveryHeadSizeWorks) {
  for (const int d : {1, 3, 5, 7, 9, 12, 33, 63, 65, 80, 88, 96, 100, 127, 129, 192, 256, 300}) {
    const Problem p = problem("q3:d" + std::to_string(d));
    const auto answer = run(p, mean_index(p));
    if (answer) expect_all(*answer, 1, 2, std::log(3.0));
  }
}

TEST_P(Case, O028_TheDefaultScaleIsThatOfTheTrueHeadSize) {
  const Problem p = problem("q1:k2:d96");
  const auto answer = run(p, constant(q_shape(p), 1), rows({0, 0.112126648f}, 96), rows({4, 8}, 96));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 7, 8);
  expect_lse(*answer, 0, 0, 0, 1.386294);
}

TEST_P(Case, O029_VMayHaveAHeadSizeOfItsOwn) {
  for (const char* text : {"q1:k2:d8:dv16", "q1:k2:d16:dv8", "q1:k2:d192:dv128", "q1:k2:d1:dv300"}) {
    const Problem p = problem(text);
    const auto answer = run(p, equal_scores(p, rows({2, 6}, p.value_dim)));
    if (!answer) continue;
    EXPECT_EQ(answer->o.shape[3], p.value_dim);
    expect_all(*answer, 4, 6, std::log(2.0));
  }
}

}  // namespace
}  // namespace runmax::kit
