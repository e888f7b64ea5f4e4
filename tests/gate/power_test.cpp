// The power of the gates (kind 40): on every kind of input, answers that anyone could give without computing
// attention are rejected, and so is one bad element.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "gate/gate.hpp"
#include "inputs/draw.hpp"
#include "reference/reference.hpp"

namespace runmax {
namespace {

using check::lesson_gate_applies;
using reference::Row;

constexpr InputKind kinds[] = {InputKind::normal, InputKind::loud,    InputKind::onesign,
                               InputKind::wide,   InputKind::equal,   InputKind::needle,
                               InputKind::rising, InputKind::falling, InputKind::hot};

// One head of a kind, some of its rows with the reference's answer, and the best key of each.
struct Trial {
  Problem p;
  inputs::HostInputs drawn;
  std::vector<std::int64_t> rows;
  std::vector<Row<double>> want;

  Trial(InputKind kind, std::int64_t n, std::int64_t row_count) {
    p.query_len = p.kv_len = n;
    p.input = kind;
    p.seed = 112;
    drawn = inputs::draw(p);
    rows = reference::sampled_rows(n, row_count);
    const reference::Head<float> head{
        {drawn.q.data(), 64, 1}, {drawn.k.data(), 64, 1}, {drawn.v.data(), 64, 1}, n, n, 64, 64, 0.125};
    reference::for_each_reference_row(head, rows, reference::AllKeys{n}, 2,
                                      [&](std::int64_t, const Row<double>& row) { want.push_back(row); });
  }

  double score(std::int64_t i, std::int64_t j) const {
    double dot = 0;
    for (std::int64_t c = 0; c < 64; ++c)
      dot += static_cast<double>(drawn.q[static_cast<std::size_t>(i * 64 + c)]) *
             static_cast<double>(drawn.k[static_cast<std::size_t>(j * 64 + c)]);
    return dot * 0.125;
  }

  const float* value(std::int64_t j) const { return drawn.v.data() + j * 64; }

  std::vector<float> mean_value() const {
    std::vector<double> sum(64, 0);
    for (std::int64_t j = 0; j < p.kv_len; ++j)
      for (std::size_t c = 0; c < 64; ++c) sum[c] += value(j)[c];
    std::vector<float> mean;
    for (const double s : sum) mean.push_back(static_cast<float>(s / static_cast<double>(p.kv_len)));
    return mean;
  }

  std::int64_t best_key(std::int64_t i) const {
    std::int64_t best = 0;
    for (std::int64_t j = 1; j < p.kv_len; ++j)
      if (score(i, j) > score(i, best)) best = j;
    return best;
  }

  // What the gates that apply to this kind say of an answer, `answer(r)` being the r-th row's 64 values. True
  // if any of them rejects it.
  template <class Answer>
  bool rejected(Answer answer) const {
    gate::LessonGate lesson(p.kv_len);
    gate::HostileGate hostile(p.kv_len, gate::SequentialSum::not_allowed);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::vector<float> got = answer(r);
      lesson.add_row(0, 0, rows[r], want[r], got.data(), 1);
      hostile.add_row(0, 0, rows[r], want[r], got.data(), 1);
    }
    const bool by_lesson = !lesson.verdict().passed, by_hostile = !hostile.verdict().passed;
    // The hostile gate is the wider one: what it rejects, the lesson gate must too.
    EXPECT_TRUE(by_lesson || !by_hostile);
    return lesson_gate_applies(p.input) ? by_lesson && by_hostile : by_hostile;
  }
};

std::string kind_and_length(const ::testing::TestParamInfo<std::tuple<InputKind, std::int64_t>>& info) {
  return std::string(input_kind_name(std::get<0>(info.param))) + "_" +
         std::to_string(std::get<1>(info.param));
}

class GatePower : public ::testing::TestWithParam<std::tuple<InputKind, std::int64_t>> {
 protected:
  InputKind kind() const { return std::get<0>(GetParam()); }
  Trial trial() const { return Trial(kind(), std::get<1>(GetParam()), 16); }
};

TEST_P(GatePower, O112_TrivialAnswersAreRejected) {
  const Trial t = trial();
  EXPECT_TRUE(t.rejected([](std::size_t) { return std::vector<float>(64, 0.0f); })) << "zeros";
  EXPECT_TRUE(t.rejected([](std::size_t) { return std::vector<float>(64, 0.75f); })) << "a constant";
  inputs::Random random(9);
  EXPECT_TRUE(t.rejected([&](std::size_t) {
    std::vector<float> noise(64);
    for (float& value : noise) value = random.uniform(0.5f, 1.0f);
    return noise;
  })) << "noise";
  const std::vector<float> mean = t.mean_value();
  // With equal scores the mean of V is the right answer.
  EXPECT_EQ(t.rejected([&](std::size_t) { return mean; }), kind() != InputKind::equal) << "the mean of V";
  EXPECT_TRUE(t.rejected([&](std::size_t r) {
    const float* best = t.value(t.best_key(t.rows[r]));
    return std::vector<float>(best, best + 64);
  })) << "V of the best key";
  EXPECT_TRUE(t.rejected([&](std::size_t r) {
    return std::vector<float>(t.want[(r + 1) % t.rows.size()].out.begin(),
                              t.want[(r + 1) % t.rows.size()].out.end());
  }) || kind() == InputKind::equal)
      << "the answer of another row";
}

TEST_P(GatePower, TheReferenceItselfRoundedToF32Passes) {
  const Trial t = trial();
  EXPECT_FALSE(t.rejected(
      [&](std::size_t r) { return std::vector<float>(t.want[r].out.begin(), t.want[r].out.end()); }));
}

TEST_P(GatePower, O115_OneElementTenPercentOffIsRejected) {
  const Trial t = trial();
  const auto spoiled = [&](float (*spoil)(float)) {
    return t.rejected([&](std::size_t r) {
      std::vector<float> got(t.want[r].out.begin(), t.want[r].out.end());
      // The largest element of a row in the middle: a tenth of a tiny one may lie within its row's scale.
      if (r == 7) {
        float* largest = &*std::max_element(got.begin(), got.end(),
                                            [](float a, float b) { return std::abs(a) < std::abs(b); });
        *largest = spoil(*largest);
      }
      return got;
    });
  };
  EXPECT_TRUE(spoiled([](float value) { return value * 1.1f; }));
  EXPECT_TRUE(spoiled([](float) { return std::numeric_limits<float>::quiet_NaN(); }));
  EXPECT_TRUE(spoiled([](float) { return std::numeric_limits<float>::infinity(); }));
  EXPECT_TRUE(spoiled([](float value) { return -value; }));
}

TEST_P(GatePower, RoundingToTheTenBitsOfTf32IsRejectedByTheSecondBar) {
  const Trial t = trial();
  gate::SecondBar bar;
  for (std::size_t r = 0; r < t.rows.size(); ++r) {
    std::vector<float> exact(t.want[r].out.begin(), t.want[r].out.end()), rounded = exact;
    for (float& value : rounded) {
      const float big = value * 8193.0f;  // Veltkamp's split at 11 bits
      value = big - (big - value);
    }
    bar.add_row(0, 0, t.rows[r], t.want[r], rounded.data(), 1, exact.data(), 1);
  }
  EXPECT_FALSE(bar.verdict().passed) << "largest error / A* " << bar.error();
}

INSTANTIATE_TEST_SUITE_P(Kinds, GatePower,
                         ::testing::Combine(::testing::ValuesIn(kinds),
                                            ::testing::Values<std::int64_t>(128, 1024, 4096)),
                         kind_and_length);

TEST(GatePower, O111_ZerosNeverPassForSmallValues) {
  const std::vector<float> q(128 * 64, 0.5f), k(128 * 64, 0.25f), v(128 * 64, 1e-4f), zeros(64, 0.0f);
  const reference::Head<float> head{
      {q.data(), 64, 1}, {k.data(), 64, 1}, {v.data(), 64, 1}, 128, 128, 64, 64, 0.125};
  Row<double> want;
  reference::reference_row(head, 0, want);
  gate::LessonGate lesson(128);
  gate::HostileGate hostile(128, gate::SequentialSum::allowed);
  lesson.add_row(0, 0, 0, want, zeros.data(), 1);
  hostile.add_row(0, 0, 0, want, zeros.data(), 1);
  EXPECT_FALSE(lesson.verdict().passed);
  EXPECT_FALSE(hostile.verdict().passed);
  EXPECT_NEAR(hostile.verdict().offender.want, 1e-4, 1e-9);
}

TEST(GatePower, O113_TopLeftCausalIsRejectedWithAHint) {
  const Problem asked = parse_problem("q3:k128:d64:causal:seed=113").value();
  Problem mistaken = asked;
  mistaken.causal = Causal::top_left;
  const DeviceFacts cpu = device_facts({}).value();
  const inputs::HostInputs drawn = inputs::draw(asked);
  const auto answer_to = [&](const Problem& p) {
    return check::run_kernel(
               p, cpu, {.kernel = "cpu_lesson_online"}, check::packed_tensor({1, 1, 3, 64}, drawn.q),
               check::packed_tensor({1, 1, 128, 64}, drawn.k), check::packed_tensor({1, 1, 128, 64}, drawn.v))
        .value();
  };
  const auto judge = [&](const check::Answer& answer) {
    std::vector<check::KernelReport> report(1);
    check::judge_answers(asked, drawn, reference::all_rows(3), 1, {answer}, report, {});
    return report[0];
  };
  const check::Answer right = answer_to(asked), top_left = answer_to(mistaken);
  EXPECT_TRUE(judge(right).accepted());
  EXPECT_FALSE(judge(top_left).accepted());
  EXPECT_EQ(check::hint_of(asked, drawn, reference::all_rows(3), 1, top_left), "matches top-left alignment");
  Problem unmasked = asked;
  unmasked.causal = Causal::none;
  EXPECT_EQ(check::hint_of(asked, drawn, reference::all_rows(3), 1, answer_to(unmasked)),
            "matches attention without the causal mask");
  check::Answer noise = right;
  noise.o.at(0, 0, 1, 5) += 1;
  EXPECT_EQ(check::hint_of(asked, drawn, reference::all_rows(3), 1, noise), "");
}

TEST(GatePower, O114_NaNInAnEmptyRowFailsAndZeroPasses) {
  Row<double> empty;
  empty.out.assign(4, 0.0);
  empty.magnitude.assign(4, 0.0);
  empty.lse = -std::numeric_limits<double>::infinity();
  const auto passes = [&](float o, float lse) {
    const std::vector<float> got(4, o);
    gate::LessonGate lesson(8);
    gate::LseGate of_lse;
    lesson.add_row(0, 0, 0, empty, got.data(), 1);
    of_lse.add(0, 0, 0, empty, lse);
    return lesson.verdict().passed && of_lse.verdict().passed;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(passes(0, -infinity));
  EXPECT_FALSE(passes(std::numeric_limits<float>::quiet_NaN(), -infinity));
  EXPECT_FALSE(passes(0, std::numeric_limits<float>::quiet_NaN()));
  EXPECT_FALSE(passes(0, infinity));
  EXPECT_FALSE(passes(1e-30f, -infinity)) << "an empty row is exactly zero";
}

}  // namespace
}  // namespace runmax
