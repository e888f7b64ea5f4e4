// Kind 16: the LSE.
#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

TEST_P(Case, O047_LseIsTheNaturalLogarithm) {
  const Problem p = problem("q1:k4:d8");
  const auto answer = run(p, mean_index(p));
  if (answer) expect_lse(*answer, 0, 0, 0, 1.386294);
}

TEST_P(Case, O047_LseHoldsTheScale) {
  const Problem p = problem("q1:k1:d1:scale=3");
  const auto answer = run(p, rows({2}), rows({5}), rows({1}));
  if (answer) expect_lse(*answer, 0, 0, 0, 30);
}

TEST_P(Case, O048_LseOfAnEmptyRowIsMinusInfinityAndMergesAsNothing) {
  const Problem p = problem("q1:k0:d4");
  const auto answer = run(p, mean_index(p));
  if (!answer) return;
  expect_empty_row(*answer, 0, 0, 0);
  HostTensor o = answer->o, lse = answer->lse, three = constant(o.shape, 3), zero = constant(lse.shape, 0);
  const auto view = [](HostTensor& tensor) { return tensor.view(tensor.storage.data(), {}); };
  ASSERT_TRUE(merge(view(three), view(zero), view(o), view(lse), view(o), view(lse)).ok());
  EXPECT_EQ(o.storage, three.storage);
  EXPECT_EQ(lse.at(0, 0, 0), 0.0f);
}

TEST_P(Case, O049_TheSameLseOnEveryPath) {
  const Problem p = problem("q1:k8:d8");
  for (const int splits : {0, 1, 3}) {
    PlanOptions with_splits = options();
    with_splits.num_splits = splits;
    const Operands in = mean_index(p);
    const auto answer = run(p, in.q, in.k, in.v, with_splits);
    if (!answer) continue;
    EXPECT_NEAR(answer->lse.at(0, 0, 0), 2.0794415, 1e-6 * 2.0794415);
  }
}

TEST_P(Case, O049_AnLseThatIsNotWantedIsNotWritten) {
  const Problem p = problem("q5:k8:d8");
  const Operands in = mean_index(p);
  const Result<Plan> planned = plan(p, facts(), options());
  if (!planned.ok()) GTEST_SKIP() << planned.status().message();
  const Result<Answer> answer = check::run_trapped(
      facts().device, planned.value().workspace_bytes, in.q, in.k, in.v, packed_tensor(q_shape(p)),
      packed_tensor({1, 1, 5, 1}), [&](Tensors tensors, Workspace workspace) {
        tensors.lse.data = nullptr;
        return runmax::run(planned.value(), tensors, workspace, nullptr);
      });
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer.value().trespass, "");
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(answer.value().o.at(0, 0, i, 7), 3.5, 1e-5);
    EXPECT_TRUE(std::isnan(answer.value().lse.at(0, 0, i)));
  }
}

}  // namespace
}  // namespace runmax::kit
