// The planted faults in the CUDA kernel itself: each fails the gate that is meant to catch it.
#include <gtest/gtest.h>

#include <cctype>

#include "guarded_floats.hpp"
#include "mutants.hpp"
#include "mutants_launch.hpp"

namespace runmax {
namespace lesson {
namespace {

#if defined(RUNMAX_WITH_CUDA)

// What the kernel gives with the planted fault; 0 is none.
std::vector<float> device_answer(int fault, const HeadCase& c) {
  const GuardedFloats q(c.q), k(c.k), v(c.v), o(c.n * test_dim);
  EXPECT_EQ(launch_mutant(fault, q.data(), k.data(), v.data(), o.data(), c.n), 0);
  return o.read();
}

class FaultInTheKernel : public ::testing::TestWithParam<std::tuple<Mutant, std::int64_t>> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_P(FaultInTheKernel, FailsTheGateMeantForIt) {
  const auto& [mutant, n] = GetParam();
  const HeadCase c(n, mutant.caught_on);
  const Verdicts verdicts = judge_answer(c, device_answer(mutant.fault, c));
  EXPECT_EQ(rejected_as_meant(mutant, verdicts), "") << mutant.name << ": " << words(c, verdicts.lesson);
}

INSTANTIATE_TEST_SUITE_P(Online, FaultInTheKernel,
                         ::testing::Combine(::testing::ValuesIn(mutants()),
                                            ::testing::Values(192, 256, 1024)),
                         [](const auto& param) {
                           std::string name = std::get<0>(param.param).name;
                           for (char& letter : name)
                             if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
                           return name + "_" + std::to_string(std::get<1>(param.param));
                         });

class KernelData : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_P(KernelData, WithTheLoudKeyFirstHidesTheMissingRescaleThatItShowsAtNMinus3) {
  const HeadCase first(GetParam(), HeadData::loud_first), last(GetParam(), HeadData::loud_last);
  const gate::Verdict hidden = judge_answer(first, device_answer(1, first)).lesson;
  const gate::Verdict shown = judge_answer(last, device_answer(1, last)).lesson;
  EXPECT_TRUE(hidden.passed) << words(first, hidden);
  EXPECT_FALSE(shown.passed) << words(last, shown);
}

TEST_P(KernelData, OfEveryKindPassesWithoutAFault) {
  for (HeadData data : {HeadData::loud_last, HeadData::loud_first, HeadData::far_below_zero}) {
    const HeadCase c(GetParam(), data);
    const gate::Verdict verdict = judge_answer(c, device_answer(0, c)).hostile;
    EXPECT_TRUE(verdict.passed) << words(c, verdict);
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, KernelData, ::testing::Values(192, 256, 1024));

#else

TEST(FaultInTheKernel, NeedsABuildWithCuda) { GTEST_SKIP() << "this build has no CUDA kernels (no nvcc)"; }

#endif

}  // namespace
}  // namespace lesson
}  // namespace runmax
