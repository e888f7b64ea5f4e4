// Each planted fault fails the gate that is meant to catch it; the same code without a fault passes.
#include "mutants.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <tuple>

namespace runmax {
namespace lesson {
namespace {

class PlantedFault : public ::testing::TestWithParam<std::tuple<Mutant, std::int64_t>> {};

TEST_P(PlantedFault, FailsTheGateMeantForIt) {
  const auto& [mutant, n] = GetParam();
  const HeadCase c(n, mutant.caught_on);
  const Verdicts verdicts = judge_answer(c, mutant.host_answer(c));
  EXPECT_EQ(rejected_as_meant(mutant, verdicts), "") << mutant.name << ": " << words(c, verdicts.lesson);
}

std::string fault_name(const ::testing::TestParamInfo<PlantedFault::ParamType>& param) {
  std::string name = std::get<0>(param.param).name;
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name + "_" + std::to_string(std::get<1>(param.param));
}

// At least six tiles: where every tile holds the largest score so far, "against its own maximum" is right.
INSTANTIATE_TEST_SUITE_P(Online, PlantedFault,
                         ::testing::Combine(::testing::ValuesIn(mutants()),
                                            ::testing::Values(192, 256, 1024)),
                         fault_name);

class RightRule : public ::testing::TestWithParam<std::tuple<HeadData, std::int64_t>> {};

TEST_P(RightRule, PassesWhereTheFaultsFail) {
  const auto& [data, n] = GetParam();
  const HeadCase c(n, data);
  const Verdicts verdicts = judge_answer(c, host_answer<Fold>(c));
  EXPECT_TRUE(verdicts.hostile.passed) << words(c, verdicts.hostile);
  if (data != HeadData::far_below_zero) {
    EXPECT_TRUE(verdicts.lesson.passed) << words(c, verdicts.lesson);
  }
}

INSTANTIATE_TEST_SUITE_P(Online, RightRule,
                         ::testing::Combine(::testing::Values(HeadData::loud_last, HeadData::loud_first,
                                                              HeadData::far_below_zero),
                                            ::testing::Values(64, 256, 1024)),
                         [](const auto& param) {
                           return std::string(head_data_name(std::get<0>(param.param))) + "_" +
                                  std::to_string(std::get<1>(param.param));
                         });

class LoudKey : public ::testing::TestWithParam<std::int64_t> {};

// Why the lesson puts its loud key last: test data whose largest score comes early hides this fault.
TEST_P(LoudKey, InTheFirstTileHidesTheMissingRescaleThatItShowsAtNMinus3) {
  const HeadCase first(GetParam(), HeadData::loud_first), last(GetParam(), HeadData::loud_last);
  const gate::Verdict hidden = judge_answer(first, host_answer<OutputNotRescaled>(first)).lesson;
  const gate::Verdict shown = judge_answer(last, host_answer<OutputNotRescaled>(last)).lesson;
  EXPECT_TRUE(hidden.passed) << words(first, hidden);
  EXPECT_FALSE(shown.passed) << words(last, shown);
}

INSTANTIATE_TEST_SUITE_P(Lengths, LoudKey, ::testing::Values(64, 256, 1024));

TEST(PlantedFaultOnOrdinaryScores, AMaximumStartedAtZeroPasses) {
  // So only data with every score far below zero can catch it.
  const HeadCase c(256, HeadData::loud_last);
  const gate::Verdict verdict = judge_answer(c, host_answer<MaxStartsAtZero>(c)).lesson;
  EXPECT_TRUE(verdict.passed) << words(c, verdict);
}

}  // namespace
}  // namespace lesson
}  // namespace runmax
