// Cases O-009, O-012, O-013, O-016, O-017, O-022, O-028, O-029, O-033, O-053, O-055 to O-059, O-110 and
// O-119: gradients, on every backward kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "check/gradient_check.hpp"
#include "inputs/draw_dout.hpp"
#include "registry/registry.hpp"
#include "tests/kit/case.hpp"

namespace runmax::kit {
namespace {

using check::GradientAnswer;

// What a case gives: everything that is not named is zero; lengths and heads come from the problem.
struct Given {
  HostTensor q, k, v, dout;
};

class GradientCase : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    entry_ = find_backward_kernel(GetParam());
    ASSERT_NE(entry_, nullptr);
    const Result<DeviceFacts> facts = device_facts({entry_->device, 0});
    ASSERT_TRUE(facts.ok()) << facts.status().message();
    facts_ = facts.value();
  }

  // In the type that the kernel serves.
  Problem problem(const std::string& text) const {
    return kit::problem(entry_->serves.f32 ? text : text + ":f64");
  }

  static Given given(const Problem& p) {
    return {constant(q_shape(p), 0), constant(k_shape(p), 0), constant(v_shape(p), 0),
            constant(o_shape(p), 1)};
  }
  // The problem's own Q, K and V, and a dO of ones.
  static Given drawn(const Problem& p) {
    const inputs::HostInputs values = inputs::draw(p);
    return {packed_tensor(q_shape(p), values.q), packed_tensor(k_shape(p), values.k),
            packed_tensor(v_shape(p), values.v), constant(o_shape(p), 1)};
  }
  static std::array<std::int64_t, 4> o_shape(const Problem& p) {
    return {p.batch, p.query_heads, p.query_len, p.value_dim};
  }

  // Forward by the plan's own choice, then backward on this kernel; traps are set.
  GradientAnswer run(const Problem& p, const Given& in) {
    GradientAnswer none;
    const Result<check::Answer> forward =
        check::run_kernel(p, facts_, {}, in.q, in.k, in.v, packed_tensor(o_shape(p)),
                          packed_tensor({p.batch, p.query_heads, p.query_len, 1}));
    EXPECT_TRUE(forward.ok()) << forward.status().message();
    const Result<Plan> planned = plan_backward(p, facts_, {.kernel = GetParam()});
    EXPECT_TRUE(planned.ok()) << planned.status().message();
    if (!forward.ok() || !planned.ok()) return none;
    Result<GradientAnswer> answer = check::run_backward_trapped(
        planned.value(), in.q, in.k, in.v, forward.value().o, forward.value().lse, in.dout, in.q, in.k, in.v);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    if (!answer.ok()) return none;
    EXPECT_EQ(answer.value().trespass, "");
    o_ = forward.value().o;
    lse_ = forward.value().lse;
    return answer.value();
  }

  static void expect_all(const HostTensor& tensor, float want, double within, const char* name) {
    for (std::size_t n = 0; n < tensor.storage.size(); ++n)
      ASSERT_NEAR(tensor.storage[n], want, within) << name << " element " << n;
  }

  const KernelEntry* entry_ = nullptr;
  DeviceFacts facts_;
  HostTensor o_, lse_;
};

TEST_P(GradientCase, O009_TheSameBitsWhateverTheBuffersHeld) {
  // The runner fills outputs and workspace with 0xFF.
  const Problem p = problem("q3:d8");
  Given in = given(p);
  in.v = constant(v_shape(p), 1);
  const GradientAnswer got = run(p, in);
  expect_all(got.dq, 0, 0, "dq");
  expect_all(got.dk, 0, 0, "dk");
  expect_all(got.dv, 1, 1e-6, "dv");
}

TEST_P(GradientCase, O012_TwoRowsAreAsGoodAsAnyLength) {
  const Problem p = problem("q2:d64");
  Given in = given(p);
  for (std::int64_t c = 0; c < 64; ++c) {
    in.v.at(0, 0, 0, c) = 1;
    in.v.at(0, 0, 1, c) = 3;
  }
  const GradientAnswer got = run(p, in);
  expect_all(o_, 2, 0, "o");
  expect_all(got.dq, 0, 0, "dq");
  expect_all(got.dk, 0, 0, "dk");
  expect_all(got.dv, 1, 0, "dv");
}

TEST_P(GradientCase, O013_PartialTilesWithStronglyNegativeScores) {
  for (const char* length : {"33", "64", "96", "100", "192"}) {
    const Problem p = problem("q" + std::string(length) + ":d64");
    Given in = given(p);
    in.q = constant(q_shape(p), 4);
    in.k = constant(k_shape(p), -6.25f);
    in.v = constant(v_shape(p), 1);
    const GradientAnswer got = run(p, in);
    // LSE is rounded to FP32: 1.5e-5 at 200, and the weights with it.
    expect_all(got.dv, 1, 2e-5, "dv");
    expect_all(got.dq, 0, 64 * 6.25 / 8 * 2e-5, "dq");
    expect_all(got.dk, 0, 64 * 4 / 8.0 * 2e-5, "dk");
    if (std::string(length) == "100") {
      EXPECT_NEAR(lse_.at(0, 0, 99), -195.394830, 2e-5);
    }
  }
}

TEST_P(GradientCase, O016_ZeroBatchHasEmptyGradients) {
  const Problem p = problem("b0:hq10:hk10:q16:k16:d64");
  const GradientAnswer got = run(p, given(p));
  EXPECT_TRUE(got.dq.storage.empty() && got.dk.storage.empty() && got.dv.storage.empty());
  EXPECT_EQ(got.plan.workspace_bytes, 0u);
}

TEST_P(GradientCase, O017_NoKeysGiveZeroGradientsAndNoRowsToo) {
  for (const char* text : {"b2:hq3:hk3:q4:k0:d64", "b2:hq3:hk3:q4:k0:d64:causal"}) {
    const Problem p = problem(text);
    Given in = given(p);
    in.q = constant(q_shape(p), 3);
    const GradientAnswer got = run(p, in);
    ASSERT_EQ(got.dq.storage.size(), 2u * 3 * 4 * 64);
    expect_all(got.dq, 0, 0, "dq");
    EXPECT_TRUE(got.dk.storage.empty() && got.dv.storage.empty());
  }
  const Problem p = problem("b2:hq4:hk2:q0:k5:d8");
  const GradientAnswer got = run(p, given(p));
  ASSERT_EQ(got.dk.storage.size(), 2u * 2 * 5 * 8);
  expect_all(got.dk, 0, 0, "dk");
  expect_all(got.dv, 0, 0, "dv");
}

TEST_P(GradientCase, O022_RowStridesOfManyElementsAreHonoured) {
  const Problem p = problem("q129:d16");
  Given in = drawn(p);
  in.dout.storage = inputs::draw_dout(p);
  const GradientAnswer want = run(p, in);
  // The same dO with 65536 elements from row to row: 128 rows are 2^23.
  HostTensor apart = in.dout;
  apart.strides = {129 * 65536, 129 * 65536, 65536, 1};
  apart.storage.assign(128 * 65536 + 16, not_a_number);
  for (std::int64_t i = 0; i < 129; ++i)
    for (std::int64_t c = 0; c < 16; ++c) apart.at(0, 0, i, c) = in.dout.at(0, 0, i, c);
  in.dout = apart;
  const GradientAnswer got = run(p, in);
  EXPECT_EQ(got.dq.storage, want.dq.storage);
  EXPECT_EQ(got.dk.storage, want.dk.storage);
  EXPECT_EQ(got.dv.storage, want.dv.storage);
}

TEST_P(GradientCase, O028_O029_TheDefaultScaleIsThatOfTheTrueHeadSizeAndVMayHaveItsOwn) {
  for (const char* dims : {"d8:dv16", "d16:dv8", "d192:dv128", "d5:dv3"}) {
    Problem p = problem("q3:k2:" + std::string(dims));
    Given in = drawn(p);
    const GradientAnswer by_default = run(p, in);
    p.softmax_scale = 1 / std::sqrt(static_cast<double>(p.head_dim));
    const GradientAnswer named = run(p, in);
    EXPECT_EQ(by_default.dq.storage, named.dq.storage) << dims;
    EXPECT_EQ(by_default.dk.storage, named.dk.storage) << dims;
    ASSERT_EQ(by_default.dv.shape[3], p.value_dim);
    // Each row's weights sum to 1.
    for (std::int64_t c = 0; c < p.value_dim; ++c)
      EXPECT_NEAR(by_default.dv.at(0, 0, 0, c) + by_default.dv.at(0, 0, 1, c), 3, 1e-5) << dims;
  }
}

TEST_P(GradientCase, O033_ARowOfOneKeyGivesItsKeyDoutAndNothingElse) {
  const Problem p = problem("q1:k1:d64");
  Given in = given(p);
  in.q = constant(q_shape(p), 150528);
  in.k = constant(k_shape(p), 150528);
  in.v = constant(v_shape(p), 1);
  const GradientAnswer got = run(p, in);
  expect_all(got.dv, 1, 0, "dv");
  expect_all(got.dq, 0, 0, "dq");
  expect_all(got.dk, 0, 0, "dk");
}

TEST_P(GradientCase, O053_TheSameBitsInEveryRun) {
  const Problem p = problem("b2:hq4:hk4:q256:d64");
  Given in = drawn(p);
  in.dout.storage = inputs::draw_dout(p);
  const GradientAnswer first = run(p, in);
  for (int n = 0; n < 20; ++n) {
    const GradientAnswer again = run(p, in);
    ASSERT_EQ(again.dq.storage, first.dq.storage);
    ASSERT_EQ(again.dk.storage, first.dk.storage);
    ASSERT_EQ(again.dv.storage, first.dv.storage);
  }
}

TEST_P(GradientCase, O055_KeysGetTheSumOverTheirGroup) {
  const Problem p = problem("hq4:hk1:q1:k1:d1");
  Given in = given(p);
  in.v = constant(v_shape(p), 1);
  for (std::int64_t h = 0; h < 4; ++h) in.dout.at(0, h, 0) = static_cast<float>(h + 1);
  const GradientAnswer got = run(p, in);
  expect_all(got.dv, 10, 0, "dv");
  expect_all(got.dq, 0, 0, "dq");
  expect_all(got.dk, 0, 0, "dk");
}

TEST_P(GradientCase, O056_ForwardAndBackwardShareOneHeadMap) {
  const Problem p = problem("hq6:hk2:q1:k1:d1");
  Given in = given(p);
  for (std::int64_t h = 0; h < 6; ++h) in.dout.at(0, h, 0) = static_cast<float>(h + 1);
  const GradientAnswer got = run(p, in);
  EXPECT_EQ(got.dv.at(0, 0, 0), 6);
  EXPECT_EQ(got.dv.at(0, 1, 0), 15);
}

TEST_P(GradientCase, O058_BackwardObeysTheCausalMask) {
  for (const bool causal : {false, true}) {
    const Problem p = problem(causal ? "q2:d1:causal" : "q2:d1");
    Given in = given(p);
    in.v.at(0, 0, 1) = 1;
    const GradientAnswer got = run(p, in);
    EXPECT_FLOAT_EQ(got.dv.at(0, 0, 0), causal ? 1.5f : 1.0f);
    EXPECT_FLOAT_EQ(got.dv.at(0, 0, 1), causal ? 0.5f : 1.0f);
  }
}

TEST_P(GradientCase, O059_EachBatchElementHasTheGradientsItHasAloneAlsoWherePeaked) {
  for (const float factor : {1.0f, 20.0f}) {
    const Problem p = problem("b2:hq4:hk2:q256:d64:causal");
    Given in = drawn(p);
    in.dout.storage = inputs::draw_dout(p);
    for (float& x : in.q.storage) x *= factor;
    const GradientAnswer both = run(p, in);
    for (std::int64_t b = 0; b < 2; ++b) {
      Problem one = p;
      one.batch = 1;
      const auto part = [b](const HostTensor& tensor) {
        const auto size = static_cast<std::ptrdiff_t>(tensor.storage.size()) / 2;
        std::array<std::int64_t, 4> shape = tensor.shape;
        shape[0] = 1;
        return packed_tensor(shape, std::vector<float>(tensor.storage.begin() + b * size,
                                                       tensor.storage.begin() + (b + 1) * size));
      };
      const GradientAnswer alone = run(one, {part(in.q), part(in.k), part(in.v), part(in.dout)});
      EXPECT_EQ(alone.dq.storage, part(both.dq).storage) << "batch element " << b << " factor " << factor;
      EXPECT_EQ(alone.dk.storage, part(both.dk).storage) << "batch element " << b << " factor " << factor;
      EXPECT_EQ(alone.dv.storage, part(both.dv).storage) << "batch element " << b << " factor " << factor;
    }
  }
}

TEST_P(GradientCase, O110_WithinTwoHundredThousandthsOfTheLargestElement) {
  for (const char* text : {"hq2:hk2:q257:d64", "hq2:hk2:q257:d64:causal"}) {
    const Result<check::GradientReport> report =
        check::check_gradients(problem(text), facts_, {.kernel = GetParam()});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_TRUE(report.value().accepted()) << check::describe(report.value());
    // The case's own bound, besides that of the gate.
    for (const check::GateReport& gate : report.value().kernels[0].gates)
      EXPECT_LE(gate.verdict.max_abs_error, 2e-5) << gate.name;
  }
}

TEST_P(GradientCase, O119_BatchAndHeadsAreLimitedByMemoryOnly) {
  for (const char* text : {"b65536:q1:k1:d16", "hq65536:q1:k1:d16"}) {
    const Problem p = problem(text);
    Given in = given(p);
    in.v = constant(v_shape(p), 2);
    const GradientAnswer got = run(p, in);
    expect_all(got.dv, 1, 0, "dv");
    expect_all(got.dq, 0, 0, "dq");
    expect_all(got.dk, 0, 0, "dk");
  }
}

std::vector<std::string> backward_names() {
  std::vector<std::string> names;
  for (const KernelEntry& kernel : backward_kernels())
    if (kernel.device == DeviceKind::cpu) names.emplace_back(kernel.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(On, GradientCase, ::testing::ValuesIn(backward_names()), kernel_name);

TEST(GradientCommand, AcceptsTheEngineAndSamplesWhatIsTooLongForAWholeReference) {
  const DeviceFacts facts = device_facts({DeviceKind::cpu, 0}).value();
  const Problem p = problem("hq2:hk1:q3000:k2000:d16:causal");
  for (const std::int64_t rows : {0, 20}) {
    const Result<check::GradientReport> report =
        check::check_gradients(p, facts, {.kernel = "", .rows = rows});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_TRUE(report.value().accepted()) << check::describe(report.value());
    EXPECT_EQ(report.value().coverage.whole, rows == 0);
    EXPECT_EQ(report.value().coverage.keys, rows == 0 ? 2000 : 20);
    EXPECT_NE(check::describe(report.value()).find(rows == 0 ? "3000 of 3000 query rows" : "20 of 2000 keys"),
              std::string::npos)
        << check::describe(report.value());
  }
  // A sample is as strict: the same gradients, one sampled key of dV ten percent off.
  const inputs::HostInputs drawn = inputs::draw(p);
  const std::vector<float> dout = inputs::draw_dout(p);
  const HostTensor q = packed_tensor(q_shape(p), drawn.q), k = packed_tensor(k_shape(p), drawn.k),
                   v = packed_tensor(v_shape(p), drawn.v);
  const Result<check::Answer> forward = check::run_kernel(p, facts, {}, q, k, v);
  ASSERT_TRUE(forward.ok());
  const HostTensor dout_tensor = packed_tensor({p.batch, p.query_heads, p.query_len, p.value_dim}, dout);
  Result<GradientAnswer> answer = check::run_backward_trapped(
      plan_backward(p, facts).value(), q, k, v, forward.value().o, forward.value().lse, dout_tensor, q, k, v);
  ASSERT_TRUE(answer.ok());
  answer.value().dv.at(0, 0, 1999, 3) *= 1.1f;
  std::vector<check::KernelReport> reports(1);
  check::judge_gradients(p, drawn, dout, forward.value().o, forward.value().lse, {false, 20, 20}, 1,
                         {answer.value()}, reports, {});
  ASSERT_EQ(reports[0].gates.size(), 3u);
  EXPECT_TRUE(reports[0].gates[0].verdict.passed);
  EXPECT_TRUE(reports[0].gates[1].verdict.passed);
  EXPECT_FALSE(reports[0].gates[2].verdict.passed);
}

// fp16 and bf16: one element further off than the roundings of O and of the gradient explain.
TEST(GradientCommand, JudgesSixteenBitGradientsByTheirRounding) {
  const DeviceFacts facts = device_facts({DeviceKind::cpu, 0}).value();
  for (const char* text : {"hq4:hk2:q150:k130:d24:dv20:causal:f16", "hq2:hk1:q100:k140:d64:bf16:in=loud"}) {
    const Problem p = problem(text);
    const Result<check::GradientReport> report = check::check_gradients(p, facts, {.kernel = ""});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_TRUE(report.value().accepted()) << check::describe(report.value());

    inputs::HostInputs drawn = inputs::draw(p);
    std::vector<float> dout = inputs::draw_dout(p);
    check::round_to(p.dtype, drawn);
    check::round_to(p.dtype, dout);
    const HostTensor q = packed_tensor(q_shape(p), drawn.q), k = packed_tensor(k_shape(p), drawn.k),
                     v = packed_tensor(v_shape(p), drawn.v);
    const Result<check::Answer> forward = check::run_kernel(p, facts, {}, q, k, v);
    ASSERT_TRUE(forward.ok());
    Result<GradientAnswer> right = check::run_backward_trapped(
        plan_backward(p, facts).value(), q, k, v, forward.value().o, forward.value().lse,
        packed_tensor({p.batch, p.query_heads, p.query_len, p.value_dim}, dout), q, k, v);
    ASSERT_TRUE(right.ok());
    const auto rejected = [&](auto change) {
      GradientAnswer answer = right.value();
      change(answer);
      std::vector<check::KernelReport> reports(1);
      check::judge_gradients(p, drawn, dout, forward.value().o, forward.value().lse,
                             {true, p.query_len, p.kv_len}, 1, {answer}, reports, {});
      return !reports[0].accepted();
    };
    EXPECT_FALSE(rejected([](GradientAnswer&) {}));
    const float off = p.dtype == DType::f16 ? 0x1p-9f : 0x1p-6f;
    // dV is free of O: twice its spacing is too much. dQ and dK carry the rounding of O, in their A.
    EXPECT_TRUE(rejected([&](GradientAnswer& a) { a.dv.at(0, 0, 3, 5) *= 1 + off; }));
    EXPECT_TRUE(rejected([&](GradientAnswer& a) { a.dq.at(0, 1, 40, 2) += 1; }));
    EXPECT_TRUE(
        rejected([&](GradientAnswer& a) { std::swap(a.dk.at(0, 0, 100, 1), a.dk.at(0, 0, 100, 2)); }));
    EXPECT_TRUE(rejected([&](GradientAnswer& a) { a.dk.at(0, 0, 7, 0) = not_a_number; }));
  }
}

}  // namespace
}  // namespace runmax::kit
