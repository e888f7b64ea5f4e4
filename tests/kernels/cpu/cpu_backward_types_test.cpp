// Gradients in fp16 and bf16: those of the same numbers in FP32, rounded once.
#include "problem/format16.hpp"
#include "tests/kernels/cpu/backward_case.hpp"

namespace runmax::testing_cpu {
namespace {

using Bits = std::vector<std::uint16_t>;

Bits encoded(Format16 format, const std::vector<float>& values) {
  Bits bits;
  for (const float x : values) bits.push_back(encode16(format, static_cast<double>(x)));
  return bits;
}
std::vector<float> decoded(Format16 format, const Bits& bits) {
  std::vector<float> values;
  for (const std::uint16_t x : bits) values.push_back(decode16(format, x));
  return values;
}

class CpuBackwardTypes : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(CpuBackwardTypes, AreThoseOfTheWidenedNumbersRoundedOnce) {
  const auto [type, text] = GetParam();
  const Format16 format = std::string(type) == "f16" ? format_f16 : format_bf16;
  const Problem wide = problem_of(text), p = problem_of(std::string(text) + ":" + type);
  // What the 16 bits hold, as FP32; O too, as forward would have stored it.
  BackwardInputs in = backward_inputs(wide);
  const auto rounded = [&](std::vector<float>& values) { values = decoded(format, encoded(format, values)); };
  for (std::vector<float>* values : {&in.in.q, &in.in.k, &in.in.v, &in.dout}) rounded(*values);
  in.answer = compute(wide, in.in);
  rounded(in.answer.o);
  const GradientAnswer want = gradients_of(wide, in);

  const Bits q = encoded(format, in.in.q), k = encoded(format, in.in.k), v = encoded(format, in.in.v),
             o = encoded(format, in.answer.o), dout = encoded(format, in.dout);
  const auto poison = [](const std::vector<float>& like) { return Bits(like.size(), 0xffff); };
  const Bits dq = poison(want.dq), dk = poison(want.dk), dv = poison(want.dv);
  const auto view = [&](const Bits& bits, std::int64_t heads, std::int64_t length, std::int64_t dim) {
    return packed_view(bits.data(), p.dtype, {p.batch, heads, length, dim}, Layout::bhsd);
  };
  Tensors tensors;
  tensors.q = view(q, p.query_heads, p.query_len, p.head_dim);
  tensors.k = view(k, p.kv_heads, p.kv_len, p.head_dim);
  tensors.v = view(v, p.kv_heads, p.kv_len, p.value_dim);
  tensors.o = view(o, p.query_heads, p.query_len, p.value_dim);
  tensors.lse =
      packed_view(in.answer.lse.data(), DType::f32, {p.batch, p.query_heads, p.query_len, 1}, Layout::bhsd);
  Gradients gradients;
  gradients.dout = view(dout, p.query_heads, p.query_len, p.value_dim);
  gradients.dq = view(dq, p.query_heads, p.query_len, p.head_dim);
  gradients.dk = view(dk, p.kv_heads, p.kv_len, p.head_dim);
  gradients.dv = view(dv, p.kv_heads, p.kv_len, p.value_dim);
  for (const std::int32_t threads : {1, 3}) {
    const Result<Plan> planned = plan_backward(p, cpu_with(threads));
    ASSERT_TRUE(planned.ok()) << planned.status().message();
    GuardedBytes workspace(planned.value().workspace_bytes);
    ASSERT_TRUE(
        run_backward(planned.value(), tensors, gradients, {workspace.data(), workspace.bytes()}).ok());
    EXPECT_TRUE(workspace.intact());
    EXPECT_EQ(dq, encoded(format, want.dq));
    EXPECT_EQ(dk, encoded(format, want.dk));
    EXPECT_EQ(dv, encoded(format, want.dv));
  }
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<const char*, const char*>>& test) {
  return std::string(std::get<0>(test.param)) + "_" + test_name(std::get<1>(test.param));
}
INSTANTIATE_TEST_SUITE_P(
    Problems, CpuBackwardTypes,
    ::testing::Combine(::testing::Values("f16", "bf16"),
                       ::testing::Values("q101:k430:d24:dv17:causal", "b2:hq4:hk2:q50:k60:d64", "q7:k0:d8",
                                         "q1:k1:d3", "q200:k40:d16:causal", "hq3:hk1:q97:k800:d80:dv16")),
    case_name);

}  // namespace
}  // namespace runmax::testing_cpu
