// fp16 and bf16: the cases of kinds 08, 10, 11 and 15 that name them, and the LSE, which stays FP32.
#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

// The tensor `elements` further into a larger, NaN-filled buffer.
HostTensor shifted(const HostTensor& packed, std::int64_t elements) {
  HostTensor tensor = packed;
  tensor.storage.insert(tensor.storage.begin(), static_cast<std::size_t>(elements), not_a_number);
  tensor.offset += elements;
  return tensor;
}

TEST_P(Case, O010_O049_EveryTypeHasTheSameLse) {
  for (const char* type : {"f16", "bf16", "f64"})
    for (const int n : {1, 8, 15, 17, 193}) {
      const Problem p = problem("q" + std::to_string(n) + ":d16:" + type);
      const auto answer = run(p, mean_index(p));
      if (answer) expect_all(*answer, (n - 1) / 2.0, n, std::log(n));
    }
}

TEST_P(Case, O025_OddLengthsInManyHeadsOfFp16) {
  const Problem p = problem("h16:q43:d64:f16");
  const auto answer = run(p, mean_index(p));
  if (answer) expect_all(*answer, 21, 42, 3.7612001);
}

TEST_P(Case, O026_Fp16AtTwoBytesPastAnAllocation) {
  const Problem p = problem("q129:d64:f16");
  const Operands in = equal_scores(p, constant(v_shape(p), 1));
  const HostTensor o = packed_tensor(o_shape(p)), lse = packed_tensor(lse_shape(p));
  for (int which = 0; which < 4; ++which) {
    SCOPED_TRACE(which);
    Operands moved = in;
    if (which == 0) moved.q = shifted(in.q, 1);
    if (which == 1) moved.k = shifted(in.k, 1);
    if (which == 2) moved.v = shifted(in.v, 1);
    const auto answer = run(p, moved, options(), which == 3 ? shifted(o, 1) : o, lse);
    if (answer) expect_all(*answer, 1, 1, std::log(129.0));
  }
}

TEST_P(Case, O030_HugeScoresInBf16) {
  const Problem p = problem("q1:d64:bf16");
  const HostTensor all = constant(q_shape(p), 150528);
  const auto answer = run(p, all, all, all);
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 150528, 150528);
  EXPECT_NEAR(answer->lse.at(0, 0, 0), 1.8126943e11, 2e-6 * 1.8126943e11);
}

TEST_P(Case, O031_ScoresOfFp16AreHeldInF32) {
  const Problem p = problem("q1:k2:d128:f16");
  HostTensor v = rows({2, 6}, 128);
  const auto answer = run(p, constant(q_shape(p), 64), constant(k_shape(p), 64), v);
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 4, 6);
  EXPECT_NEAR(answer->lse.at(0, 0, 0), 46341.643, 0.01);
}

TEST_P(Case, O032_ShiftedScoresInBf16) {
  const Problem p = problem("q1:k2:d1:scale=1:bf16");
  const auto answer = run(p, rows({-256}), rows({256, 256}), rows({2, 6}));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 4, 6);
  EXPECT_NEAR(answer->lse.at(0, 0, 0), -65535.3069, 0.01);
}

TEST_P(Case, O034_AHotKeyOfFp16AnywhereInALongRow) {
  const std::int64_t n = 65536;
  const Problem p = problem("q1:k65536:d1:scale=1:f16");
  for (const std::int64_t hot : {std::int64_t{0}, n / 2, n - 1}) {
    std::vector<float> k(static_cast<std::size_t>(n), 0), v(static_cast<std::size_t>(n), 1000);
    k[static_cast<std::size_t>(hot)] = 9;
    v[static_cast<std::size_t>(hot)] = 0;
    const auto answer = run(p, rows({1}), rows(k), rows(v));
    if (!answer) return;
    EXPECT_NEAR(answer->o.at(0, 0, 0), 890.0, 1) << "hot key " << hot;
    EXPECT_NEAR(answer->lse.at(0, 0, 0), std::log(65535 + std::exp(9.0)), 2.3e-5) << "hot key " << hot;
  }
}

TEST_P(Case, O035_NothingOverflowsInFp16) {
  const Problem p = problem("q1:k65536:d64:f16");
  const auto answer = run(p, equal_scores(p, constant(v_shape(p), 2)));
  if (!answer) return;
  for (std::int64_t c = 0; c < p.value_dim; ++c) EXPECT_EQ(answer->o.at(0, 0, 0, c), 2.0f);
  expect_lse(*answer, 0, 0, 0, 11.090355);
}

TEST_P(Case, O046_AnyGroupSizeInBf16) {
  for (const int heads : {1, 2, 3, 5, 6, 7, 12}) {
    const Problem p = problem("hq" + std::to_string(heads) + ":hk1:q1:k2:d8:bf16");
    const auto answer = run(p, equal_scores(p, rows({2, 6}, 8)));
    if (answer) expect_all(*answer, 4, 6, std::log(2.0));
  }
}

// 1 + 2^-40 is no FP32 number; its square has to be known to more than FP32's bits.
TEST_P(Case, O109_F64MeansF64) {
  const Problem p = problem("q1:k1:d3:scale=1:f64");
  HostTensor one = packed_tensor(q_shape(p));
  one.wide = {1 + 0x1p-40, 0, 0};
  HostTensor v = packed_tensor(v_shape(p));
  v.wide = {1 + 0x1p-52, -3e300, 1e-310};
  const auto answer = run(p, Operands{one, one, v});
  if (!answer) return;
  EXPECT_EQ(answer->lse.wide[0], (1 + 0x1p-40) * (1 + 0x1p-40));
  EXPECT_EQ(answer->o.wide, v.wide);
}

// The largest fp16 is 65504: the mean of what lies near it does not round to infinity, and what is larger
// does.
TEST_P(Case, TheOutputOverflowsWhereItsTypeDoes) {
  const Problem p = problem("q1:k2:d4:f16");
  const auto answer = run(p, equal_scores(p, constant(v_shape(p), 65504)));
  if (!answer) return;
  EXPECT_EQ(answer->o.at(0, 0, 0, 3), 65504.0f);
  HostTensor v = constant(v_shape(p), 1);
  v.at(0, 0, 1, 2) = infinity;
  v.at(0, 0, 0, 1) = not_a_number;
  const auto special = run(p, equal_scores(p, v));
  if (!special) return;
  EXPECT_EQ(special->o.at(0, 0, 0, 0), 1.0f);
  EXPECT_TRUE(std::isnan(special->o.at(0, 0, 0, 1)));
  EXPECT_EQ(special->o.at(0, 0, 0, 2), infinity);
}

// Subnormal fp16 values are values: the mean of 1 and 3 times the smallest is twice it.
TEST_P(Case, SubnormalsOfFp16AreNotFlushed) {
  const Problem p = problem("q1:k2:d20:f16");
  const auto answer = run(p, equal_scores(p, rows({0x1p-24f, 0x3p-24f}, 20)));
  if (!answer) return;
  for (std::int64_t c = 0; c < 20; ++c) EXPECT_EQ(answer->o.at(0, 0, 0, c), 0x1p-23f);
}

}  // namespace
}  // namespace runmax::kit
