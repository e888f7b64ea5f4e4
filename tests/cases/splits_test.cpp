// Kind 17: splits over the keys, and merging their results.
#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

struct Part {
  float o, lse;
};

Part merged(Part a, Part b) {
  const auto view = [](float& value) { return packed_view(&value, DType::f32, {1, 1, 1, 1}, Layout::bhsd); };
  Part out{not_a_number, not_a_number};
  EXPECT_TRUE(merge(view(a.o), view(a.lse), view(b.o), view(b.lse), view(out.o), view(out.lse)).ok());
  return out;
}

TEST(CaseMerge, O050_TheEmptyStateIsNeutralWithItselfToo) {
  const Part both = merged({0, -infinity}, {0, -infinity});
  EXPECT_EQ(both.o, 0.0f);
  EXPECT_EQ(both.lse, -infinity);
  const Part left = merged({0, -infinity}, {0.7f, 1.3f}), right = merged({0.7f, 1.3f}, {0, -infinity});
  EXPECT_EQ(left.o, 0.7f);
  EXPECT_EQ(left.lse, 1.3f);
  EXPECT_EQ(right.o, 0.7f);
  EXPECT_EQ(right.lse, 1.3f);
}

TEST(CaseMerge, O052_APartThatSawNothingIsIgnoredWhateverItsOutputHolds) {
  const Part first = merged({5, 0}, {0, -infinity});
  EXPECT_EQ(first.o, 5.0f);
  EXPECT_EQ(first.lse, 0.0f);
  const Part second = merged({1, 0}, {3, 0});
  EXPECT_EQ(second.o, 2.0f);
  EXPECT_NEAR(second.lse, 0.693147, 1e-6);
  for (const float poison : {not_a_number, infinity, -infinity}) {
    const Part third = merged({poison, -infinity}, {5, 0});
    EXPECT_EQ(third.o, 5.0f);
    EXPECT_EQ(third.lse, 0.0f);
    const Part empty = merged({poison, -infinity}, {poison, -infinity});
    EXPECT_EQ(empty.o, 0.0f);
    EXPECT_EQ(empty.lse, -infinity);
  }
}

TEST_P(Case, O051_TheAnswerDoesNotDependOnTheNumberOfSplits) {
  const Problem p = problem("q1:k100:d64");
  for (const int splits : {1, 2, 3, 7, 16, 100, 128}) {
    PlanOptions with_splits = options();
    with_splits.num_splits = splits;
    const Operands in = mean_index(p);
    const auto answer = run(p, in.q, in.k, in.v, with_splits);
    if (answer) expect_all(*answer, 49.5, 99, 4.605170);
  }
}

TEST_P(Case, O051_SplitsWithManyRowsAndHeads) {
  const Problem p = problem("b2:hq4:hk2:q37:k451:d20:dv9");
  for (const int splits : {1, 2, 5, 64}) {
    PlanOptions with_splits = options();
    with_splits.num_splits = splits;
    const Operands in = mean_index(p);
    const auto answer = run(p, in.q, in.k, in.v, with_splits);
    if (answer) expect_all(*answer, 225, 450, std::log(451.0));
  }
}

}  // namespace
}  // namespace runmax::kit
