// The gates themselves: what they must let through, and what never.
#include "gate/gate.hpp"
#include "gate/rounded.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace runmax {
namespace {

using gate::Collector;
using gate::HostileGate;
using gate::LessonGate;
using gate::LseGate;
using gate::SecondBar;
using gate::SequentialSum;
using gate::Verdict;
using reference::Row;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

Row<double> row_of(std::vector<double> out, std::vector<double> magnitude, double lse = 0, double s = 0) {
  Row<double> row;
  row.out = std::move(out);
  row.magnitude = std::move(magnitude);
  row.lse = lse;
  row.score_magnitude = s;
  row.keys = 1;
  return row;
}

Verdict lesson(const Row<double>& want, const std::vector<float>& got) {
  LessonGate gate(256);
  gate.add_row(0, 0, 0, want, got.data(), 1);
  return gate.verdict();
}

TEST(Within, SpecialValuesAreMatchedByKind) {
  EXPECT_TRUE(gate::within(1, 1, 0));
  EXPECT_TRUE(gate::within(infinity, infinity, 0));
  EXPECT_TRUE(gate::within(-infinity, -infinity, 0));
  EXPECT_TRUE(gate::within(nan_value, nan_value, 0));
  EXPECT_FALSE(gate::within(nan_value, 1, infinity));
  EXPECT_FALSE(gate::within(infinity, 1, infinity));
  EXPECT_FALSE(gate::within(1, infinity, infinity));
  EXPECT_FALSE(gate::within(1, nan_value, infinity));
  EXPECT_FALSE(gate::within(-infinity, infinity, infinity));
  EXPECT_FALSE(gate::within(1, 1.5, nan_value));
}

// Values that cancel: all of the answer is the error of its weights.
TEST(RoundedGate, RoundedWeightsAreAllowedForWhereTheyAreSaidToBeAndNoMore) {
  const auto passes = [](gate::Weights weights, float got) {
    gate::RoundedGate gate(256, gate::rounding_bf16, SequentialSum::allowed, weights);
    gate.add_row(0, 0, 0, row_of({0}, {1}), &got, 1);
    return gate.verdict().passed;
  };
  EXPECT_TRUE(passes(gate::Weights::rounded, 0x1p-8f));
  EXPECT_FALSE(passes(gate::Weights::exact, 0x1p-8f));
  EXPECT_FALSE(passes(gate::Weights::rounded, 0x1.1p-8f));
  EXPECT_TRUE(passes(gate::Weights::exact, 0x1p-17f));
}

TEST(LessonGate, ToleranceIsTheLessonsRule) {
  EXPECT_EQ(gate::lesson_rtol(256), 1e-5);
  EXPECT_EQ(gate::lesson_rtol(1024), 4 * 0x1p-23 * 32);
  EXPECT_EQ(gate::lesson_rtol(4096), 4 * 0x1p-23 * 64);
  EXPECT_EQ(LessonGate(4096).rule(), "max(1e-5, 4*2^-23*sqrt(4096)) = 3.052e-05");
}

TEST(LessonGate, BoundIsRtolTimesAWithAFloorFromItsRow) {
  const Row<double> want = row_of({0, 1}, {0, 1});
  const auto at = [](double value) { return static_cast<float>(value); };
  EXPECT_TRUE(lesson(want, {at(0.9e-5 * 0x1p-16), at(1 + 0.9e-5)}).passed);
  EXPECT_FALSE(lesson(want, {at(1.1e-5 * 0x1p-16), 1}).passed);
  EXPECT_FALSE(lesson(want, {0, at(1 + 1.2e-5)}).passed);
}

TEST(LessonGate, NamesTheFirstOffenderAndTheWorst) {
  LessonGate gate(256);
  const Row<double> want = row_of({1, 1, 1}, {1, 1, 1});
  const std::vector<float> good{1, 1, 1}, bad{1, 1.125f, 1.25f};
  gate.add_row(0, 2, 16, want, good.data(), 1);
  gate.add_row(0, 2, 17, want, bad.data(), 1);
  gate.add_row(0, 2, 18, want, good.data(), 1);
  const Verdict verdict = gate.verdict();
  EXPECT_FALSE(verdict.passed);
  EXPECT_EQ(verdict.failed, 2);
  EXPECT_EQ(verdict.compared, 9);
  EXPECT_EQ(gate::place_text(verdict.offender), "o[0,2,17,1]");
  EXPECT_EQ(verdict.offender.got, 1.125);
  EXPECT_EQ(gate::place_text(verdict.worst), "o[0,2,17,2]");
  EXPECT_NEAR(verdict.gate_fraction, 0.25 / 1e-5, 1);
  const std::string text =
      gate::describe(verdict, "lesson gate", gate.rule(), "runmax check q256:d3 --seed 7");
  EXPECT_NE(text.find("FAILED o[0,2,17,1] got 1.125 want 1 bound 1.000e-05 (query row 17, head dimension 1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("repeat: runmax check q256:d3 --seed 7"), std::string::npos) << text;
}

TEST(LessonGate, AFailureIsNeverTakenBack) {
  LessonGate gate(256);
  const Row<double> want = row_of({1}, {1});
  const float bad = 2, good = 1;
  gate.add_row(0, 0, 0, want, &bad, 1);
  for (int i = 1; i < 100; ++i) gate.add_row(0, 0, i, want, &good, 1);
  EXPECT_FALSE(gate.verdict().passed);
  EXPECT_EQ(gate.verdict().offender.row, 0);
}

TEST(LessonGate, NothingComparedIsNoPass) {
  EXPECT_FALSE(LessonGate(256).verdict().passed);
  EXPECT_FALSE(HostileGate(256, SequentialSum::allowed).verdict().passed);
  EXPECT_FALSE(SecondBar().verdict().passed);
  EXPECT_FALSE(LseGate().verdict().passed);
}

TEST(LessonGate, AgainstAnotherPathUsesTheReferencesScale) {
  const Row<double> scale = row_of({1e-3}, {1});
  const float naive = 1e-3f, close = 1e-3f + 0.9e-5f, far = 1e-3f + 1.2e-5f;
  LessonGate passes(256), fails(256);
  passes.add_row_against(0, 0, 0, scale, &naive, 1, &close, 1);
  fails.add_row_against(0, 0, 0, scale, &naive, 1, &far, 1);
  EXPECT_TRUE(passes.verdict().passed);
  EXPECT_GT(passes.verdict().gate_fraction, 0.8);
  EXPECT_FALSE(fails.verdict().passed);
}

TEST(FinitenessGate, AValueThatIsNotFiniteIsRejectedByName) {
  const Verdict verdict = lesson(row_of({1, 1}, {1, 1}), {1, static_cast<float>(infinity)});
  EXPECT_FALSE(verdict.passed);
  EXPECT_FALSE(verdict.finite);
  EXPECT_EQ(verdict.gate_fraction, infinity);
  EXPECT_NE(gate::describe(verdict, "lesson gate", "", "x").find("not finite"), std::string::npos);
  EXPECT_TRUE(lesson(row_of({1, 1}, {1, 1}), {1, 2}).finite);
}

TEST(HostileGate, AllowsForTheSizeOfTheScoresAndOfASequentialSum) {
  const double n = 4096, s = 450, e = 0x1p-23;
  EXPECT_DOUBLE_EQ(gate::hostile_rtol(4096, s, SequentialSum::not_allowed), 4 * e * 64 + 4 * e * s);
  EXPECT_DOUBLE_EQ(gate::hostile_rtol(4096, s, SequentialSum::allowed), 4 * e * 64 + 4 * e * s + e * n / 2);
}

TEST(SecondBar, IsTwiceTheIeeePathOrTheFloor) {
  const Row<double> want = row_of({1}, {1 - 0x1p-16});  // A* = 1 up to 2^-32
  const auto judge = [&](double error, double ieee_error) {
    SecondBar bar;
    const auto got = static_cast<float>(1 + error), ieee = static_cast<float>(1 + ieee_error);
    bar.add_row(0, 0, 0, want, &got, 1, &ieee, 1);
    return bar.verdict();
  };
  EXPECT_TRUE(judge(4.76837e-07, 0).passed);
  EXPECT_FALSE(judge(6e-7, 0).passed);
  EXPECT_TRUE(judge(1.9e-5, 1e-5).passed);
  EXPECT_FALSE(judge(2.2e-5, 1e-5).passed);
  EXPECT_FALSE(judge(nan_value, nan_value).passed) << "a NaN passed because the other path had one too";
  EXPECT_FALSE(judge(1e-5, nan_value).passed) << "a broken ieee path widened the bar";
}

TEST(SecondBar, IsNotComparableOverAHandfulOfRows) {
  SecondBar bar;
  const Row<double> want = row_of({1}, {1});
  const float one = 1;
  for (int i = 0; i < 255; ++i) bar.add_row(0, 0, i, want, &one, 1, &one, 1);
  EXPECT_FALSE(bar.comparable());
  bar.add_row(0, 0, 255, want, &one, 1, &one, 1);
  EXPECT_TRUE(bar.comparable());
}

TEST(SecondBar, RowsWhereTheIeeePathIsNotFiniteAreNotCompared) {
  SecondBar bar;
  const Row<double> want = row_of({1}, {1});
  const float one = 1, off = 1.00001f, nan = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 256; ++i) bar.add_row(0, 0, i, want, &off, 1, &nan, 1);
  EXPECT_FALSE(bar.comparable()) << "there is nothing to compare with";
  EXPECT_FALSE(bar.verdict().passed);
  for (int i = 0; i < 256; ++i) bar.add_row(0, 0, 256 + i, want, &one, 1, &one, 1);
  EXPECT_TRUE(bar.comparable());
  EXPECT_TRUE(bar.verdict().passed)
      << "1e-5 off where the plain path is NaN is for the hostile gate to judge";
  bar.add_row(0, 0, 512, want, &nan, 1, &nan, 1);
  EXPECT_FALSE(bar.verdict().passed) << "NaN passed for a number";
}

TEST(LseGate, BoundIsAbsoluteOrRelativeWhicheverIsLarger) {
  const auto passes = [](double want, double got) {
    LseGate gate;
    gate.add(0, 0, 0, row_of({}, {}, want), static_cast<float>(got));
    return gate.verdict().passed;
  };
  EXPECT_TRUE(passes(1, 1 + 0.9e-5));
  EXPECT_FALSE(passes(1, 1 + 1.2e-5));
  EXPECT_TRUE(passes(1000, 1000 + 1.9e-3));
  EXPECT_FALSE(passes(1000, 1000 + 2.2e-3));
  EXPECT_TRUE(passes(-infinity, -infinity));
  EXPECT_FALSE(passes(-infinity, infinity));
  EXPECT_FALSE(passes(-infinity, -1e30));
  EXPECT_FALSE(passes(-infinity, nan_value));
  EXPECT_FALSE(passes(0, nan_value));
}

}  // namespace
}  // namespace runmax
