// The five predictions on the lesson's own figures and on figures that break each of them.
#include "lesson/predictions.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace runmax {
namespace lesson {
namespace {

// What the lesson measured on a Tesla T4.
std::vector<SizeFigures> lesson_sizes() {
  return {{256, true, 0.0614, 0.0614, 0.0669, 5.941e-09, 5.678e-09, 0.0745, 0.3540},
          {1024, true, 0.0553, 0.0553, 0.0596, 3.023e-09, 3.372e-09, 0.8413, 1.4604},
          {4096, true, 0.0578, 0.0550, 0.0614, 1.453e-09, 1.310e-09, 8.3724, 5.2910}};
}

std::vector<ResourceFigures> lesson_kernels() {
  return {{"scores", false, 2112, 2112, 40, 4, 4, 1.0, 1.0},
          {"online", true, 32896, 32896, 61, 1, 1, 0.25, 0.25}};
}

std::vector<Prediction> on(const std::vector<SizeFigures>& sizes) {
  return five_predictions(sizes, lesson_kernels(), "");
}

TEST(Predictions, AllFiveHoldOnTheLessonsFigures) {
  const std::vector<Prediction> all = on(lesson_sizes());
  ASSERT_EQ(all.size(), 5u);
  for (const Prediction& p : all) {
    EXPECT_EQ(p.outcome, Outcome::held) << p.name << ": " << p.reason;
    EXPECT_FALSE(p.figures.empty()) << p.name;
    EXPECT_FALSE(p.reason.empty()) << p.name;
  }
  EXPECT_NE(all[4].figures.find("256: 0.210, 1024: 0.576, 4096: 1.582"), std::string::npos) << all[4].figures;
}

TEST(Predictions, AFailedGateFailsTheFirstAndNamesTheSize) {
  auto sizes = lesson_sizes();
  sizes[1].gates_passed = false;
  const Prediction p = on(sizes)[0];
  EXPECT_EQ(p.outcome, Outcome::failed);
  EXPECT_NE(p.reason.find("1024"), std::string::npos) << p.reason;
}

TEST(Predictions, AgreementToTheBitFailsTheFirst) {
  auto sizes = lesson_sizes();
  sizes[2].online_vs_naive_gate_fraction = 0;
  EXPECT_EQ(on(sizes)[0].outcome, Outcome::failed);
  sizes[2].online_vs_naive_gate_fraction = std::nan("");
  EXPECT_EQ(on(sizes)[0].outcome, Outcome::failed);
}

TEST(Predictions, AnErrorBeyondTwiceNaivesOrANanFailsTheSecond) {
  auto sizes = lesson_sizes();
  sizes[0].online_max_abs_error = 2.01 * sizes[0].naive_max_abs_error;
  EXPECT_EQ(on(sizes)[1].outcome, Outcome::failed);
  sizes[0].online_max_abs_error = std::nan("");
  EXPECT_EQ(on(sizes)[1].outcome, Outcome::failed);
  sizes[0].online_max_abs_error = 2 * sizes[0].naive_max_abs_error;
  EXPECT_EQ(on(sizes)[1].outcome, Outcome::held);
}

TEST(Predictions, OtherResourcesThanPredictedFailTheThird) {
  auto kernels = lesson_kernels();
  kernels[1].blocks = 2;
  EXPECT_EQ(five_predictions(lesson_sizes(), kernels, "")[2].outcome, Outcome::failed);
  kernels = lesson_kernels();
  kernels[1].shared_bytes = 32768;
  EXPECT_EQ(five_predictions(lesson_sizes(), kernels, "")[2].outcome, Outcome::failed);
}

TEST(Predictions, WithoutMultiprocessorsTheThirdDoesNotApplyAndSaysWhy) {
  const Prediction p = five_predictions(lesson_sizes(), {}, "a CPU has no multiprocessors")[2];
  EXPECT_EQ(p.outcome, Outcome::not_applicable);
  EXPECT_EQ(p.reason, "a CPU has no multiprocessors");
}

TEST(Predictions, OnAnH200TheOnlineKernelLosesEverywhereAndTheFifthFails) {
  auto sizes = lesson_sizes();
  const double naive[] = {0.0203, 0.0583, 0.6652}, online[] = {0.1018, 0.3852, 1.5244};
  for (std::size_t i = 0; i < 3; ++i) {
    sizes[i].naive_ms = naive[i];
    sizes[i].online_ms = online[i];
  }
  const std::vector<Prediction> all = on(sizes);
  EXPECT_EQ(all[3].outcome, Outcome::held);
  EXPECT_EQ(all[4].outcome, Outcome::failed);
  EXPECT_NE(all[4].reason.find("does not win at 4096"), std::string::npos) << all[4].reason;
  EXPECT_NE(all[4].reason.find("does not rise"), std::string::npos) << all[4].reason;
}

TEST(Predictions, AWinAt256FailsTheFourth) {
  auto sizes = lesson_sizes();
  sizes[0].online_ms = 0.05;
  EXPECT_EQ(on(sizes)[3].outcome, Outcome::failed);
  EXPECT_EQ(on(sizes)[4].outcome, Outcome::failed) << "a win below 4096 is a crossing too early";
}

TEST(Predictions, SizesThatWereNotMeasuredMakeThemNotApplicable) {
  auto sizes = lesson_sizes();
  sizes.erase(sizes.begin());
  EXPECT_EQ(on(sizes)[3].outcome, Outcome::not_applicable);
  EXPECT_EQ(on(sizes)[4].outcome, Outcome::held) << "1024 and 4096 are enough";
  sizes.pop_back();
  EXPECT_EQ(on(sizes)[4].outcome, Outcome::not_applicable);
  for (const Prediction& p : five_predictions({}, {}, "no device"))
    EXPECT_EQ(p.outcome, Outcome::not_applicable) << p.name;
}

TEST(Predictions, SizesMayComeInAnyOrder) {
  auto sizes = lesson_sizes();
  std::swap(sizes[0], sizes[2]);
  EXPECT_EQ(on(sizes)[4].outcome, Outcome::held);
}

TEST(Predictions, ALongerSizeMustRiseToo) {
  auto sizes = lesson_sizes();
  sizes.push_back({8192, true, 0.05, 0.05, 0.06, 1e-9, 1e-9, 20.0, 20.5});
  EXPECT_EQ(on(sizes)[4].outcome, Outcome::failed);
}

}  // namespace
}  // namespace lesson
}  // namespace runmax
