// Gradients in f64: their gate on every instruction set, finite differences of the engine's own forward under
// every option and form, and what hidden memory may hold.
#include <hwy/targets.h>

#include <cmath>

#include "check/check.hpp"
#include "check/forms.hpp"
#include "check/gradient_check.hpp"
#include "inputs/draw_dout.hpp"
#include "kernels/forward/cpu/tiles.hpp"
#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {
namespace {

using check::GradientAnswer;
using check::HostOperands;
using check::HostTensor;

check::Answer forward_of(const Problem& p, const HostOperands& in, std::int32_t threads = 2) {
  const Result<check::Answer> answer =
      check::run_kernel(p, cpu_with(threads), {.kernel = "cpu_double", .threads = threads}, in,
                        check::form_o(p), check::form_lse(p));
  EXPECT_TRUE(answer.ok()) << to_text(p) << ": " << answer.status().message();
  return answer.ok() ? answer.value() : check::Answer{};
}

GradientAnswer gradients_of(const Problem& p, const HostOperands& in, const HostTensor& dout,
                            std::int32_t threads = 2) {
  const check::Answer forward = forward_of(p, in, threads);
  const Result<Plan> planned =
      plan_backward(p, cpu_with(threads), {.kernel = "cpu_double_backward", .threads = threads});
  EXPECT_TRUE(planned.ok()) << to_text(p) << ": " << planned.status().message();
  if (!planned.ok()) return {};
  Result<GradientAnswer> answer =
      check::run_backward_trapped(planned.value(), in, forward.o, forward.lse, dout, in.q, in.k, in.v);
  EXPECT_TRUE(answer.ok()) << to_text(p) << ": " << answer.status().message();
  if (!answer.ok()) return {};
  EXPECT_EQ(answer.value().trespass, "") << to_text(p);
  return answer.value();
}

HostTensor dout_of(const Problem& p) { return check::form_dout(p, inputs::draw_dout(p)); }

class CpuDoubleBackward : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { cpu::force_tile_target(GetParam()); }
  void TearDown() override { cpu::force_tile_target(0); }
};

TEST_P(CpuDoubleBackward, TheGatesAcceptIt) {
  for (const char* text :
       {"q49:k129:d33:dv20:f64", "b2:hq4:hk2:q65:k97:d24:causal:f64", "q80:k300:d64:in=hot:f64",
        "q80:k300:d64:in=wide:f64", "q60:k400:d24:window=90,3:f64:in=rising", "q1:k1:d1:f64", "q5:k0:d8:f64",
        "q7:k50:d8:dv0:f64", "q0:k5:d8:f64", "q130:k40:d8:causal:f64",
        "hq4:hk2:q60:k200:d16:dv8:f64:bias:mask:sink:softcap=20:alibi:dropout=0.2:causal",
        "hq4:hk2:varlen=37/137,1/300,0/5,28/150,9/"
        "0:d24:causal:paged=7:seqused:f64:bias:mask:sink:softcap=9:alibi"}) {
    const Result<check::GradientReport> report =
        check::check_gradients(problem_of(text), cpu_with(2), {.kernel = "", .threads = 2});
    ASSERT_TRUE(report.ok()) << text << ": " << report.status().message();
    EXPECT_TRUE(report.value().accepted()) << describe(report.value());
    EXPECT_EQ(report.value().kernels[0].kernel, "cpu_double_backward");
  }
}

std::string target_name(const ::testing::TestParamInfo<std::int64_t>& test) {
  return hwy::TargetName(test.param);
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, CpuDoubleBackward, ::testing::ValuesIn(cpu::tile_targets()),
                         target_name);

// Every gradient against (loss(x + h) - loss(x - h)) / 2h of cpu_double itself: no reference takes part.
void expect_finite_differences(const Problem& p, HostOperands in, const std::string& what) {
  const HostTensor dout = dout_of(p);
  const GradientAnswer got = gradients_of(p, in, dout);
  const auto loss = [&] {
    const check::Answer answer = forward_of(p, in);
    double sum = 0;
    for (std::size_t n = 0; n < answer.o.wide.size(); ++n) sum += dout.wide[n] * answer.o.wide[n];
    return sum;
  };
  struct Operand {
    const char* name;
    HostTensor* values;
    const HostTensor* gradient;
  };
  std::vector<Operand> operands{{"dq", &in.q, &got.dq}, {"dk", &in.k, &got.dk}, {"dv", &in.v, &got.dv}};
  if (p.bias) operands.push_back({"dbias", &in.bias, &got.dbias});
  for (const Operand& operand : operands) {
    if (operand.values->wide.empty())
      operand.values->wide.assign(operand.values->storage.begin(), operand.values->storage.end());
    operand.values->dtype = DType::f64;
    for (std::size_t n = 0; n < operand.values->wide.size(); ++n) {
      double& value = operand.values->wide[n];
      const double before = value;
      if (!std::isfinite(before)) continue;
      constexpr double step = 1e-5;
      value = before + step;
      const double above = loss();
      value = before - step;
      const double below = loss();
      value = before;
      ASSERT_NEAR(operand.gradient->wide[n], (above - below) / (2 * step), 5e-9)
          << what << " " << to_text(p) << ": " << operand.name << " element " << n;
    }
  }
  // A sink is f32: a step of a power of two is exact, and the error of the difference that of the step.
  for (std::size_t h = 0; p.sink && h < in.sink.storage.size(); ++h) {
    const float before = in.sink.storage[h], step = 0x1p-12f;
    in.sink.storage[h] = before + step;
    const double up = in.sink.storage[h], above = loss();
    in.sink.storage[h] = before - step;
    const double down = in.sink.storage[h], below = loss();
    in.sink.storage[h] = before;
    ASSERT_NEAR(got.dsink.wide[h], (above - below) / (up - down), 1e-6) << what << " dsink " << h;
  }
}

TEST(CpuDoubleGradients, AreTheFiniteDifferencesOfForwardUnderEveryOption) {
  for (const char* text :
       {"q3:k5:d3:dv2:f64", "b2:hq2:hk1:q3:k4:d2:causal:f64", "q3:k6:d2:f64:softcap=1.5",
        "hq2:q3:k4:d2:f64:alibi", "hq2:q3:k5:d2:f64:sink", "hq2:q4:k9:d2:f64:mask", "q3:k5:d2:f64:bias",
        "q3:k9:d2:f64:dropout=0.4", "q4:k6:d2:f64:window=1,2", "hq2:hk1:q3:k5:d2:scale=-0.7:f64",
        "hq2:hk1:q4:k7:d2:f64:bias:mask:sink:softcap=2:alibi:dropout=0.2:causal",
        "hq2:hk1:varlen=2/4,0/3,3/0,1/6:d2:f64:bias:sink:causal",
        "b2:hq2:hk1:q2:k5:d2:paged=2:seqused:f64:bias:alibi:causal"}) {
    const Problem p = problem_of(text);
    expect_finite_differences(p, check::form_operands(p, inputs::draw(p)), "");
  }
}

TEST(CpuDoubleGradients, OfABiasAreSummedOverWhatSharesIt) {
  for (int shape = 0; shape < 16; ++shape) {
    const Problem p = problem_of("b2:hq2:hk1:q3:k4:d2:f64:bias:softcap=3");
    HostOperands in = check::form_operands(p, inputs::draw(p));
    in.bias =
        check::packed_tensor({shape & 1 ? 1 : 2, shape & 2 ? 1 : 2, shape & 4 ? 1 : 3, shape & 8 ? 1 : 4});
    inputs::Random random(static_cast<std::uint64_t>(shape));
    for (float& value : in.bias.storage) value = random.normal();
    expect_finite_differences(p, in, "shape " + std::to_string(shape));
  }
}

TEST(CpuDoubleGradients, BitsDoNotDependOnThreadsOrPages) {
  for (const char* text : {"hq4:hk2:varlen=37/37,1/300,0/5,100/200,97/0,5/5:d24:dv20:causal:f64:bias:sink",
                           "b5:hq4:hk2:q50:k130:d16:causal:seqused:f64:mask"}) {
    const Problem p = problem_of(text);
    const inputs::HostInputs drawn = inputs::draw(p);
    const GradientAnswer one = gradients_of(p, check::form_operands(p, drawn), dout_of(p), 1);
    Problem paged = p;
    paged.page_size = 5;
    for (const int threads : {2, 3, 16}) {
      const GradientAnswer many = gradients_of(p, check::form_operands(p, drawn), dout_of(p), threads);
      EXPECT_EQ(many.dq.wide, one.dq.wide) << text;
      EXPECT_EQ(many.dk.wide, one.dk.wide) << text;
      EXPECT_EQ(many.dv.wide, one.dv.wide) << text;
      EXPECT_EQ(many.dbias.wide, one.dbias.wide) << text;
      EXPECT_EQ(many.dsink.wide, one.dsink.wide) << text;
      EXPECT_EQ(gradients_of(paged, check::form_operands(paged, drawn), dout_of(p), threads).dq.wide,
                one.dq.wide)
          << text;
    }
  }
}

TEST(CpuDoubleGradients, HiddenKeysMayHoldAnythingAndVisibleNaNShowsInItsRowsAlone) {
  const Problem p = problem_of("hq2:hk1:q60:k140:d8:f64:mask");
  const inputs::HostInputs drawn = inputs::draw(p);
  HostOperands in = check::form_operands(p, drawn);
  in.mask = check::packed_tensor({1, 1, 1, 140}, std::vector<float>(140, 1.0f));
  in.mask.dtype = DType::boolean;
  for (const std::size_t j : {0, 7, 64, 139}) in.mask.storage[j] = 0;
  const GradientAnswer want = gradients_of(p, in, dout_of(p));
  HostOperands hostile = in;
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const std::int64_t j : {0, 7, 64, 139})
    for (std::int64_t c = 0; c < 8; ++c) {
      hostile.k.wide[static_cast<std::size_t>(hostile.k.index(0, 0, j, c))] = std::nan("");
      hostile.v.wide[static_cast<std::size_t>(hostile.v.index(0, 0, j, c))] = j == 7 ? inf : std::nan("");
    }
  const GradientAnswer got = gradients_of(p, hostile, dout_of(p));
  EXPECT_EQ(got.dq.wide, want.dq.wide);
  EXPECT_EQ(got.dk.wide, want.dk.wide);
  EXPECT_EQ(got.dv.wide, want.dv.wide);
  // A NaN in a query shows in its own dQ, in dK and dV of the keys that it sees, and nowhere else.
  hostile = in;
  hostile.q.wide[static_cast<std::size_t>(hostile.q.index(0, 1, 50, 3))] = std::nan("");
  const GradientAnswer shown = gradients_of(p, hostile, dout_of(p));
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t i = 0; i < 60; ++i)
      EXPECT_EQ(std::isnan(shown.dq.value(0, h, i, 0)), h == 1 && i == 50) << "head " << h << " row " << i;
  for (std::int64_t j = 0; j < 140; ++j) {
    const bool hidden = in.mask.storage[static_cast<std::size_t>(j)] == 0;
    EXPECT_EQ(std::isnan(shown.dk.value(0, 0, j, 3)), !hidden) << "key " << j;
    EXPECT_EQ(std::isnan(shown.dv.value(0, 0, j, 3)), !hidden) << "key " << j;
  }
}

// FP32 arithmetic anywhere inside would be far off.
TEST(CpuDoubleGradients, AnErrorOfOneInATrillionIsRejected) {
  const Problem p = problem_of("q40:k100:d16:f64");
  const inputs::HostInputs drawn = inputs::draw(p);
  const HostOperands in = check::form_operands(p, drawn);
  const check::Answer forward = forward_of(p, in);
  const GradientAnswer right = gradients_of(p, in, dout_of(p));
  const auto accepted = [&](const GradientAnswer& answer) {
    std::vector<check::KernelReport> reports(1);
    check::judge_gradients(p, drawn, inputs::draw_dout(p), forward.o, forward.lse, {true, 40, 100}, 1,
                           {answer}, reports, {});
    return reports[0].accepted();
  };
  EXPECT_TRUE(accepted(right));
  for (HostTensor GradientAnswer::*tensor : {&GradientAnswer::dq, &GradientAnswer::dk, &GradientAnswer::dv}) {
    GradientAnswer wrong = right;
    for (double& value : (wrong.*tensor).wide) value *= 1 + 1e-11;
    EXPECT_FALSE(accepted(wrong));
    wrong = right;
    (wrong.*tensor).wide[77] = std::nan("");
    EXPECT_FALSE(accepted(wrong));
  }
}

}  // namespace
}  // namespace runmax::testing_cpu
