// Inputs of whole problems: shapes, independence of heads, and what each kind promises.
#include "inputs/draw.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/reference.hpp"

namespace runmax {
namespace {

using inputs::HostInputs;
using reference::Row;

constexpr const char* kind_names[] = {"normal", "loud",   "onesign", "wide", "equal",
                                      "needle", "rising", "falling", "hot"};

Problem problem(const std::string& text) { return parse_problem(text).value(); }

// Scores of row i of the only head.
std::vector<double> scores(const Problem& p, const HostInputs& drawn, std::int64_t i) {
  std::vector<double> row(static_cast<std::size_t>(p.kv_len), 0);
  for (std::int64_t j = 0; j < p.kv_len; ++j)
    for (std::int64_t c = 0; c < p.head_dim; ++c)
      row[static_cast<std::size_t>(j)] +=
          effective_scale(p) * static_cast<double>(drawn.q[static_cast<std::size_t>(i * p.head_dim + c)]) *
          static_cast<double>(drawn.k[static_cast<std::size_t>(j * p.head_dim + c)]);
  return row;
}

class Kind : public ::testing::TestWithParam<const char*> {};

TEST_P(Kind, AnyShapeIsDrawnAndFinite) {
  for (const char* shape :
       {"q1:d64", "q2:k1:d1", "q3:k2:d2", "b2:hq6:hk3:q5:k7:d9:dv4", "q4:k0:d8", "q0:k4:d8", "b0:q4:d8",
        "q4:d0", "q4:d8:dv0", "q4:d8:scale=0", "q4:d8:scale=-0.5", "q33:d1", "q64:d300"}) {
    const Problem p = problem(std::string(shape) + ":in=" + GetParam());
    const HostInputs drawn = inputs::draw(p);
    EXPECT_EQ(static_cast<std::int64_t>(drawn.q.size()), p.batch * p.query_heads * p.query_len * p.head_dim);
    EXPECT_EQ(static_cast<std::int64_t>(drawn.k.size()), p.batch * p.kv_heads * p.kv_len * p.head_dim);
    EXPECT_EQ(static_cast<std::int64_t>(drawn.v.size()), p.batch * p.kv_heads * p.kv_len * p.value_dim);
    for (const std::vector<float>* values : {&drawn.q, &drawn.k, &drawn.v})
      for (const float value : *values) ASSERT_TRUE(std::isfinite(value)) << shape;
  }
}

TEST_P(Kind, AHeadIsTheSameWhateverStandsBesideIt) {
  const std::string kind = std::string(":in=") + GetParam();
  const HostInputs many = inputs::draw(problem("b3:hq4:hk2:q9:k11:d6" + kind));
  const HostInputs few = inputs::draw(problem("b1:hq2:hk1:q9:k11:d6" + kind));
  EXPECT_TRUE(std::equal(few.q.begin(), few.q.end(), many.q.begin()));
  EXPECT_TRUE(std::equal(few.k.begin(), few.k.end(), many.k.begin()));
  EXPECT_TRUE(std::equal(few.v.begin(), few.v.end(), many.v.begin()));
}

TEST_P(Kind, TheSeedChangesV) {
  const std::string kind = std::string(":in=") + GetParam();
  EXPECT_NE(inputs::draw(problem("q9:d6:seed=1" + kind)).v, inputs::draw(problem("q9:d6:seed=2" + kind)).v);
  EXPECT_EQ(inputs::draw(problem("q9:d6:seed=1" + kind)).v, inputs::draw(problem("q9:d6:seed=1" + kind)).v);
}

INSTANTIATE_TEST_SUITE_P(Inputs, Kind, ::testing::ValuesIn(kind_names),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(Kinds, LoudIsTheLessonsHead) {
  constexpr std::int64_t n = 65, d = 64;
  const HostInputs drawn = inputs::draw(problem("q65:d64:in=loud:seed=18"));
  std::vector<float> q(n * d), k(n * d), v(n * d);
  inputs::draw_loud_head(18, n, d, q.data(), k.data(), v.data());
  EXPECT_EQ(drawn.q, q);
  EXPECT_EQ(drawn.k, k);
  EXPECT_EQ(drawn.v, v);
}

TEST(Kinds, LoudHoldsForEveryScaleAndHeadSize) {
  for (const char* text : {"q300:d16:in=loud", "q300:d128:in=loud", "q300:d256:scale=1:in=loud",
                           "q300:d64:scale=-0.25:in=loud", "q100:k1000:d96:in=loud", "q300:d2:in=loud"}) {
    const Problem p = problem(text);
    const HostInputs drawn = inputs::draw(p);
    for (std::int64_t i = 0; i < p.query_len; i += 13) {
      const std::vector<double> row = scores(p, drawn, i);
      const auto loud = static_cast<std::size_t>(p.kv_len - 3);
      double sum = 0;
      for (const double score : row) sum += std::exp(score - row[loud]);
      EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), p.kv_len - 3) << text << " row " << i;
      EXPECT_GT(1 / sum, 0.1) << text << " row " << i;
      EXPECT_LT(1 / sum, 0.9) << text << " row " << i;
    }
  }
}

TEST(Kinds, RisingAndFallingAreStrict) {
  for (const char* text : {"q9:k2000:d64:in=rising", "q9:k2000:d64:in=falling", "q9:k50:d1:in=rising"}) {
    const Problem p = problem(text);
    const HostInputs drawn = inputs::draw(p);
    const double sign = p.input == InputKind::rising ? 1 : -1;
    for (std::int64_t i = 0; i < 9; ++i) {
      const std::vector<double> row = scores(p, drawn, i);
      for (std::size_t j = 1; j < row.size(); ++j)
        ASSERT_GT(sign * (row[j] - row[j - 1]), 0) << text << " row " << i << " key " << j;
      EXPECT_NEAR(sign * (row.back() - row.front()), 8, 2.1);
    }
  }
}

TEST(Kinds, OneSignIsPositiveAndEqualHasOneScore) {
  const HostInputs onesign = inputs::draw(problem("q50:d8:in=onesign"));
  for (const float value : onesign.v) EXPECT_TRUE(value >= 0.5f && value <= 1.0f);
  const HostInputs equal = inputs::draw(problem("q50:d8:in=equal"));
  for (const float value : equal.q) EXPECT_EQ(value, 0.0f);
}

TEST(Kinds, WideSpansTwentySevenOctavesInKAndV) {
  const Problem p = problem("q8:k2000:d32:in=wide");
  const HostInputs drawn = inputs::draw(p);
  for (const std::vector<float>* values : {&drawn.k, &drawn.v}) {
    double smallest = 1e300, largest = 0;
    for (std::int64_t j = 0; j < p.kv_len; ++j) {
      double square = 0;
      for (std::size_t c = 0; c < 32; ++c) {
        const double value = (*values)[static_cast<std::size_t>(j) * 32 + c];
        square += value * value;
      }
      smallest = std::min(smallest, square);
      largest = std::max(largest, square);
    }
    EXPECT_NEAR(std::log2(largest / smallest) / 2, 26, 1.5);
  }
}

TEST(Kinds, TheNeedleHoldsNearlyAllTheWeightAndHalfTheOutput) {
  const Problem p = problem("q40:k1000:d64:in=needle");
  const HostInputs drawn = inputs::draw(p);
  for (std::int64_t i = 0; i < 40; ++i) {
    const std::vector<double> row = scores(p, drawn, i);
    const auto needle = static_cast<std::size_t>(inputs::needle_key(1000));
    double rest = 0;
    for (std::size_t j = 0; j < row.size(); ++j)
      if (j != needle) rest += std::exp(row[j] - row[needle]);
    EXPECT_GT(rest, std::exp2(-11)) << i;
    EXPECT_LT(rest, std::exp2(-9)) << i;
  }
}

TEST(Kinds, HotScoresAreSeveralHundred) {
  const Problem p = problem("q16:k1000:d64:in=hot");
  const HostInputs drawn = inputs::draw(p);
  const reference::Head<float> head{
      {drawn.q.data(), 64, 1}, {drawn.k.data(), 64, 1}, {drawn.v.data(), 64, 1}, 16, 1000, 64, 64, 0.125};
  for (std::int64_t i = 0; i < 16; ++i) {
    Row<double> row;
    reference::reference_row(head, i, row);
    EXPECT_GT(row.score_magnitude, 400);
    EXPECT_LT(row.score_magnitude, 1500);
    EXPECT_GT(row.lse, 150);
  }
}

}  // namespace
}  // namespace runmax
