// f64: the engine's exponential, the gates of double, and the forms, on every instruction set.
#include <hwy/targets.h>

#include <cmath>

#include "check/check.hpp"
#include "check/forms.hpp"
#include "check/runner.hpp"
#include "kernels/forward/cpu/double_tiles.hpp"
#include "kernels/forward/cpu/tiles.hpp"
#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {
namespace {

constexpr double wide_infinity = std::numeric_limits<double>::infinity();

class CpuDouble : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { cpu::force_tile_target(GetParam()); }
  void TearDown() override { cpu::force_tile_target(0); }

  static std::vector<double> exp2(const std::vector<double>& x, double scale) {
    std::vector<double> result(x.size(), -1.0);
    cpu::double_functions().exp2(x.data(), scale, result.data(), static_cast<std::int64_t>(x.size()));
    return result;
  }
  static double exp2(double x, double scale = 1.0) { return exp2(std::vector<double>{x}, scale).front(); }
};

TEST_P(CpuDouble, Exp2IsWithinOneAndAHalfUlp) {
  std::vector<double> x;
  for (int i = 0; i < 400000; ++i)
    x.push_back(-1022.0 * std::pow(static_cast<double>(i) / 400000, 4) - i * 1e-9);
  for (int e = -60; e < 0; ++e) x.push_back(-std::ldexp(1.7, e));
  const std::vector<double> got = exp2(x, 1.0);
  double worst = 0, where = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] < -1021) continue;
    const long double want = std::exp2(static_cast<long double>(x[i]));
    const double nearest = static_cast<double>(want);
    const double ulp = std::nextafter(nearest, wide_infinity) - nearest;
    const double error = static_cast<double>(std::abs(static_cast<long double>(got[i]) - want)) / ulp;
    if (!(error <= worst)) worst = error, where = x[i];
  }
  EXPECT_LE(worst, 1.5) << "at " << where << ": got " << exp2(where) << " want " << std::exp2(where);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST_P(CpuDouble, Exp2OfTheSpecialValues) {
  EXPECT_EQ(exp2(0.0), 1.0);
  EXPECT_EQ(exp2(-0.0), 1.0);
  EXPECT_EQ(exp2(-5e-324), 1.0);
  for (int n = 0; n >= -1022; --n) EXPECT_EQ(exp2(static_cast<double>(n)), std::ldexp(1.0, n)) << "2^" << n;
  for (const double x : {-1023.0, -1075.0, -1e6, -1e300, -1.7976931348623157e308, -wide_infinity})
    for (const double scale : {1.0, 1.4426950408889634, 2.8853900817779268}) {
      EXPECT_EQ(exp2(x, scale), 0.0) << x << " * " << scale;
      EXPECT_FALSE(std::signbit(exp2(x, scale)));
    }
  EXPECT_TRUE(std::isnan(exp2(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exp2(-std::numeric_limits<double>::quiet_NaN())));
}

TEST_P(CpuDouble, TheGatesOfDoubleAcceptIt) {
  for (const char* text :
       {"b2:hq4:hk2:q65:k97:d33:dv20:causal:f64", "h2:q100:k700:d64:f64:in=loud",
        "q3:k3000:d128:f64:in=onesign", "q80:k300:d64:in=hot:f64", "q80:k600:d64:in=wide:f64",
        "q60:k600:d24:window=90,3:f64:in=rising", "hq4:hk2:varlen=37/137,1/300,0/5,28/0,60/20:d24:causal:f64",
        "b5:hq4:hk2:q20:k130:d16:causal:seqused:paged=7:f64", "b1:h1:q1:k1:d1:f64", "q5:k0:d8:f64",
        "q7:k50:d0:f64", "q60:k200:d16:f64:softcap=5", "hq4:q60:k200:d16:f64:alibi:causal",
        "hq4:hk2:q60:k200:d16:dv9:f64:sink:mask", "b2:hq4:hk2:q50:k300:d16:f64:bias:dropout=0.3",
        "hq4:hk2:q60:k1400:d16:dv8:f64:bias:mask:sink:softcap=20:alibi:dropout=0.2:causal:in=loud",
        "hq4:hk2:varlen=37/137,1/300,0/5,28/150,9/0:d24:causal:paged=7:seqused:f64:bias:mask:sink:alibi",
        "hq4:hk2:q100:k300:d32:f64:alibi:mask:sink:softcap=20:causal", "hq8:hk2:q1:k5000:d40:f64"}) {
    const Result<check::CheckReport> report = check::check_problem(problem_of(text), cpu_with(2), {});
    ASSERT_TRUE(report.ok()) << text << ": " << report.status().message();
    EXPECT_TRUE(report.value().accepted()) << describe(report.value());
    EXPECT_EQ(report.value().kernels[0].kernel, "cpu_double");
  }
}

std::string target_name(const ::testing::TestParamInfo<std::int64_t>& test) {
  return hwy::TargetName(test.param);
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, CpuDouble, ::testing::ValuesIn(cpu::tile_targets()), target_name);

check::Answer run_form(const Problem& p, const check::HostOperands& in, std::int32_t threads,
                       std::int32_t num_splits = 0) {
  const Result<check::Answer> answer = check::run_kernel(
      p, cpu_with(threads), {.kernel = "cpu_double", .threads = threads, .num_splits = num_splits}, in,
      check::form_o(p), check::form_lse(p));
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  if (!answer.ok()) return {};
  EXPECT_EQ(answer.value().trespass, "");
  return answer.value();
}

// FP32 arithmetic anywhere inside would be a thousand gates off: the checker must see a relative error of
// 1e-12.
TEST(CpuDoubleGate, AnErrorOfOneInATrillionIsRejected) {
  const Problem p = problem_of("q40:k100:d16:f64");
  const inputs::HostInputs drawn = inputs::draw(p);
  std::vector<check::Answer> answers{run_form(p, check::form_operands(p, drawn), 2)};
  const auto accepted = [&] {
    std::vector<check::KernelReport> reports(1);
    check::judge_answers(p, drawn, reference::all_rows(40), 1, answers, reports, {});
    return reports[0].accepted();
  };
  EXPECT_TRUE(accepted());
  double& value = answers[0].o.wide[177];
  const double right = value;
  value = right * (1 + 1e-12);
  EXPECT_FALSE(accepted());
  value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(accepted());
  value = right;
  answers[0].lse.wide[3] += 1e-12;
  EXPECT_FALSE(accepted());
}

// A split that sees no key, one whose keys are all hidden, and splits that do not end where blocks do.
TEST(CpuDoubleSplits, AnyNumberOfThemPassesTheGatesWithTheSameBitsForAnyThreads) {
  for (const char* text : {"hq4:hk2:q3:k1000:d24:dv20:causal:f64", "q70:k600:d8:window=30,2:f64",
                           "hq2:q3:k500:d8:f64:mask:sink:dropout=0.3:alibi",
                           "hq4:hk2:varlen=3/700,60/20,0/9,5/0:d8:causal:f64:bias"}) {
    const Problem p = problem_of(text);
    const inputs::HostInputs drawn = inputs::draw(p);
    for (const std::int32_t splits : {1, 2, 3, 7, 62}) {
      const std::vector<check::Answer> answers{run_form(p, check::form_operands(p, drawn), 1, splits)};
      std::vector<check::KernelReport> reports(1);
      check::judge_answers(p, drawn, reference::all_rows(p.query_len), 1, answers, reports, {});
      EXPECT_TRUE(reports[0].accepted()) << text << " in " << splits << " splits\n" << describe(reports[0]);
      EXPECT_EQ(run_form(p, check::form_operands(p, drawn), 3, splits).o.wide, answers[0].o.wide) << text;
    }
  }
  const Plan decode = plan(problem_of("hq4:hk1:q1:k32768:d64:f64"), cpu_with(8)).value();
  EXPECT_GE(decode.num_splits, 8) << "one row is work for all threads";
}

TEST(CpuDoubleOptions, HiddenKeysMayHoldAnything) {
  const Problem p = problem_of("hq2:hk1:q40:k300:d8:f64:mask:bias");
  check::HostOperands in = check::form_operands(p, inputs::draw(p));
  in.mask = check::packed_tensor({1, 1, 1, 300}, std::vector<float>(300, 1.0f));
  in.mask.dtype = DType::boolean;
  in.bias = check::packed_tensor({1, 1, 1, 300});
  for (const std::size_t j : {0, 127, 128, 299}) in.mask.storage[j] = 0;
  for (const std::size_t j : {5, 250}) in.bias.storage[j] = -std::numeric_limits<float>::infinity();
  const check::Answer want = run_form(p, in, 2);
  for (const std::int64_t j : {0, 127, 128, 299, 5, 250})
    for (std::int64_t c = 0; c < 8; ++c) {
      in.k.wide[static_cast<std::size_t>(in.k.index(0, 0, j, c))] = j == 5 ? wide_infinity : std::nan("");
      in.v.wide[static_cast<std::size_t>(in.v.index(0, 0, j, c))] = j == 5 ? -wide_infinity : std::nan("");
    }
  EXPECT_EQ(run_form(p, in, 2).o.wide, want.o.wide);
  EXPECT_EQ(run_form(p, in, 2).lse.wide, want.lse.wide);
  // What is visible shows, in its channel alone.
  in.v.wide[static_cast<std::size_t>(in.v.index(0, 0, 70, 3))] = std::nan("");
  const check::Answer shown = run_form(p, in, 2);
  for (std::int64_t i = 0; i < 40; ++i)
    for (std::int64_t c = 0; c < 8; ++c) EXPECT_EQ(std::isnan(shown.o.value(0, 1, i, c)), c == 3) << i;
}

TEST(CpuDoubleForms, BitsDoNotDependOnThreadsOrPages) {
  for (const char* text : {"hq4:hk2:varlen=37/37,1/300,0/5,100/200,97/0,5/5:d24:dv20:causal:f64",
                           "b5:hq4:hk2:q50:k130:d16:causal:seqused:f64"}) {
    const Problem p = problem_of(text);
    const inputs::HostInputs drawn = inputs::draw(p);
    const check::Answer one = run_form(p, check::form_operands(p, drawn), 1);
    Problem paged = p;
    paged.page_size = 5;
    for (const int threads : {2, 3, 16}) {
      EXPECT_EQ(run_form(p, check::form_operands(p, drawn), threads).o.wide, one.o.wide) << text;
      EXPECT_EQ(run_form(paged, check::form_operands(paged, drawn), threads).o.wide, one.o.wide) << text;
    }
  }
}

}  // namespace
}  // namespace runmax::testing_cpu
