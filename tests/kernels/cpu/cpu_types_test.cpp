// fp16 and bf16 in the engine: FP32 arithmetic on the widened inputs and one rounding of O, on every
// instruction set.
#include <hwy/targets.h>

#include "check/check.hpp"
#include "check/runner.hpp"
#include "kernels/forward/cpu/tiles.hpp"
#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {
namespace {

using check::HostTensor;

class CpuTypes : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { cpu::force_tile_target(GetParam()); }
  void TearDown() override { cpu::force_tile_target(0); }
};

// A problem's drawn values, rounded to its type.
struct Drawn {
  Problem p;
  inputs::HostInputs in;
  HostTensor q, k, v;

  explicit Drawn(const std::string& text) : p(problem_of(text)), in(inputs::draw(p)) {
    check::round_to(p.dtype, in);
    q = check::packed_tensor({p.batch, p.query_heads, p.query_len, p.head_dim}, in.q);
    k = check::packed_tensor({p.batch, p.kv_heads, p.kv_len, p.head_dim}, in.k);
    v = check::packed_tensor({p.batch, p.kv_heads, p.kv_len, p.value_dim}, in.v);
  }
  check::Answer run(DType dtype, const PlanOptions& options = {}) const {
    Problem typed = p;
    typed.dtype = dtype;
    Result<check::Answer> answer = check::run_kernel(typed, cpu_with(2), options, q, k, v);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    if (!answer.ok()) return {};
    EXPECT_EQ(answer.value().trespass, "");
    return answer.value();
  }
};

HostTensor rounded(HostTensor tensor, DType dtype) {
  tensor.dtype = dtype;
  check::decode(check::encode(tensor).data(), tensor);
  return tensor;
}

// Prefill and decoding, several tiles, groups, splits, odd channels, V in place and packed.
const char* const shapes[] = {"hq2:hk1:q37:k70:d20:dv12:causal",
                              "b2:h2:q130:k150:d64",
                              "hq4:hk2:q1:k2300:d64",
                              "hq8:hk1:q2:k600:d33:dv65",
                              "hq4:hk2:q3:k600:d37:dv48:causal",
                              "q200:k1100:d128:window=90,3",
                              "q3:k5:d1",
                              "h3:q20:k0:d8",
                              "q100:k513:d16:in=onesign"};

TEST_P(CpuTypes, TheAnswerIsThatOfF32RoundedOnce) {
  for (const char* shape : shapes)
    for (const char* type : {"f16", "bf16"}) {
      const Drawn drawn(std::string(shape) + ":" + type + ":seed=3");
      const check::Answer wide = drawn.run(DType::f32), narrow = drawn.run(drawn.p.dtype);
      EXPECT_TRUE(same_bits(narrow.o.storage, rounded(wide.o, drawn.p.dtype).storage))
          << shape << " " << type;
      EXPECT_TRUE(same_bits(narrow.lse.storage, wide.lse.storage)) << shape << " " << type;
    }
}

TEST_P(CpuTypes, TheGateAcceptsThem) {
  for (const char* text : {"hq4:hk2:q65:k97:d33:causal:f16", "q1:k3000:d64:bf16", "q80:k600:d64:in=hot:f16",
                           "q80:k600:d64:in=wide:bf16", "q80:k600:d64:in=loud:f16"}) {
    const Result<check::CheckReport> report = check::check_problem(problem_of(text), cpu_with(2), {});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_TRUE(report.value().accepted()) << describe(report.value());
  }
}

std::string target_name(const ::testing::TestParamInfo<std::int64_t>& test) {
  return hwy::TargetName(test.param);
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, CpuTypes, ::testing::ValuesIn(cpu::tile_targets()), target_name);

// Element strides of 2 bytes in every direction, and what lies between is neither read nor written.
TEST(CpuTypesMemory, AnyStridesAndAnyAlignmentGiveTheBitsOfPackedMemory) {
  const Drawn drawn("b2:hq4:hk2:q21:k70:d20:dv12:causal:bf16");
  const check::Answer want = drawn.run(DType::bf16);
  const auto spread = [](const HostTensor& packed, std::array<std::int64_t, 4> strides) {
    HostTensor tensor;
    tensor.shape = packed.shape;
    tensor.strides = strides;
    std::int64_t low = 0, high = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      const std::int64_t reach = (packed.shape[axis] - 1) * strides[axis];
      (reach < 0 ? low : high) += reach;
    }
    tensor.offset = 1 - low;
    tensor.storage.assign(static_cast<std::size_t>(high - low + 2), nan);
    for (std::int64_t b = 0; b < packed.shape[0]; ++b)
      for (std::int64_t h = 0; h < packed.shape[1]; ++h)
        for (std::int64_t i = 0; i < packed.shape[2]; ++i)
          for (std::int64_t c = 0; c < packed.shape[3]; ++c) tensor.at(b, h, i, c) = packed.at(b, h, i, c);
    return tensor;
  };
  const auto arrangements = [](const std::array<std::int64_t, 4>& n) {
    return std::vector<std::array<std::int64_t, 4>>{
        {n[1] * n[2] * n[3], n[3], n[1] * n[3], 1},
        {3 * n[1] * n[2] * n[3], 3 * n[2] * n[3], 3 * n[3], 3},
        {n[1] * n[2] * n[3], n[2] * n[3], 1, n[2]},
        {-n[1] * n[2] * n[3], -n[2] * n[3], -n[3], -1},
        {n[1] * n[2] * (n[3] + 5), n[2] * (n[3] + 5), n[3] + 5, 1}};
  };
  for (std::size_t a = 0; a < 5; ++a) {
    const auto at = [&](const HostTensor& tensor) { return spread(tensor, arrangements(tensor.shape)[a]); };
    const Result<check::Answer> answer = check::run_kernel(drawn.p, cpu_with(2), {}, at(drawn.q), at(drawn.k),
                                                           at(drawn.v), at(want.o), at(want.lse));
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(answer.value().trespass, "") << "arrangement " << a;
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t h = 0; h < 4; ++h)
        for (std::int64_t i = 0; i < 21; ++i) {
          ASSERT_EQ(answer.value().lse.at(b, h, i), want.lse.at(b, h, i));
          for (std::int64_t c = 0; c < 12; ++c)
            ASSERT_EQ(answer.value().o.at(b, h, i, c), want.o.at(b, h, i, c)) << "arrangement " << a;
        }
  }
}

// A gate that passes everything is none: one value rounded the wrong way, and one zero.
TEST(CpuTypesGate, AStepTooFarIsRejected) {
  const Drawn drawn("q40:k100:d16:f16");
  std::vector<check::Answer> answers{drawn.run(DType::f16)};
  const auto accepted = [&] {
    std::vector<check::KernelReport> reports(1);
    check::judge_answers(drawn.p, drawn.in, reference::all_rows(40), 1, answers, reports, {});
    return reports[0].accepted();
  };
  EXPECT_TRUE(accepted());
  float& value = answers[0].o.at(0, 0, 17, 5);
  const float right = value;
  value = right * (1 + 0x1p-9f);
  EXPECT_FALSE(accepted());
  value = right;
  answers[0].o.at(0, 0, 3, 0) = nan;
  EXPECT_FALSE(accepted());
}

}  // namespace
}  // namespace runmax::testing_cpu
