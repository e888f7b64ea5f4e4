// Kinds 01, 02, 03, 05, 10, 12, 14, 26, 27 and 38: masks, biases, softcap, ALiBi, sinks and dropout on
// hand-made data.
#include <immintrin.h>

#include <functional>

#include "kit/case.hpp"
#include "runmax/dropout.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

HostTensor mask_of(std::array<std::int64_t, 4> shape, std::vector<float> values) {
  HostTensor mask = packed_tensor(shape, std::move(values));
  mask.dtype = DType::boolean;
  return mask;
}

HostTensor per_head(std::vector<float> values) {
  const auto heads = static_cast<std::int64_t>(values.size());
  return packed_tensor({1, heads, 1, 1}, std::move(values));
}

constexpr float lowest = std::numeric_limits<float>::lowest();

TEST_P(Case, O001_AMaskThatHidesAllGivesZeroAndItsNeighboursAreUnaffected) {
  const Problem p = problem("q2:k2:d1:scale=1:mask");
  Operands in{rows({1, 1}), rows({0, 0}), rows({2, 6})};
  in.mask = mask_of({1, 1, 2, 2}, {1, 1, 0, 0});
  const auto answer = run(p, in);
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 4, 6);
  expect_lse(*answer, 0, 0, 0, 0.693147);
  expect_empty_row(*answer, 0, 0, 1);
}

TEST_P(Case, O003_BlocksOfBiasThatAreWhollyMinusInfinityAreSurvived) {
  for (const std::int64_t live : {640, 0, 320, 505}) {
    const Problem p = problem("q1:k650:d1:scale=1:bias");
    Operands in = mean_index(p);
    in.bias = constant({1, 1, 1, 650}, -infinity);
    double mean = 0;
    for (std::int64_t j = live; j < live + 10; ++j) {
      in.bias.at(0, 0, 0, j) = 0;
      mean += static_cast<double>(j) / 10;
    }
    const auto answer = run(p, in);
    if (!answer) return;
    expect_row(*answer, 0, 0, 0, mean, 649);
    expect_lse(*answer, 0, 0, 0, std::log(10.0));
  }
}

TEST_P(Case, O004_AMaskIsStructuralHoweverLowTheVisibleScoresAre) {
  const Problem p = problem("q1:k2:d1:scale=1:mask");
  Operands in{rows({-30000}), rows({1, 0}), rows({5, 90})};
  in.mask = mask_of({1, 1, 1, 2}, {1, 0});
  const auto answer = run(p, in);
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 5, 5);
  expect_lse(*answer, 0, 0, 0, -30000);
}

TEST_P(Case, O005_TheLowestFiniteBiasIsNotAMask) {
  const Problem p = problem("q1:k3:d1:scale=1:bias");
  Operands in{rows({0}), rows({1, 2, 3}), rows({3, 6, 9})};
  in.bias = packed_tensor({1, 1, 1, 3}, {lowest, lowest, lowest});
  const auto answer = run(p, in);
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 6, 9);
  expect_lse(*answer, 0, 0, 0, -3.4028235e38);
}

TEST_P(Case, O007_MaskedKeysAreNotReadWhateverTheyHold) {
  for (const bool by_bias : {false, true}) {
    const Problem p = problem(by_bias ? "q1:k2:d1:scale=1:bias" : "q1:k2:d1:scale=1:mask");
    for (const float poison : {not_a_number, infinity, -infinity}) {
      Operands in{rows({1}), rows({0, poison}), rows({7, poison})};
      if (by_bias)
        in.bias = packed_tensor({1, 1, 1, 2}, {0, -infinity});
      else
        in.mask = mask_of({1, 1, 1, 2}, {1, 0});
      const auto answer = run(p, in);
      if (!answer) return;
      expect_row(*answer, 0, 0, 0, 7, 7);
      expect_lse(*answer, 0, 0, 0, 0);
    }
  }
}

TEST_P(Case, O014_MoreQueriesThanKeysWithAMaskOnTop) {
  const Problem p = problem("q5:k2:d1:scale=1:causal:mask");
  Operands in = equal_scores(p, rows({10, 20}));
  in.mask = mask_of({1, 1, 5, 2}, {1, 1, 1, 1, 1, 1, 0, 1, 0, 1});
  const auto answer = run(p, in);
  if (!answer) return;
  for (std::int64_t i = 0; i < 4; ++i) expect_empty_row(*answer, 0, 0, i);
  expect_row(*answer, 0, 0, 4, 20, 20);
}

TEST_P(Case, O024_StridesOfTheBiasAreHonoured) {
  const Problem p = problem("q2:k5:d1:scale=1:bias");
  Operands in = equal_scores(p, rows({1, 2, 3, 4, 5}));
  in.bias = constant({1, 1, 2, 8}, 1e4f);
  in.bias.shape[3] = 5;
  for (std::int64_t j = 0; j < 5; ++j) {
    in.bias.at(0, 0, 0, j) = 0;
    in.bias.at(0, 0, 1, j) = j == 0 ? 0 : -infinity;
  }
  const auto answer = run(p, in);
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 3, 5);
  expect_row(*answer, 0, 0, 1, 1, 5);
}

TEST_P(Case, O024_ABiasOfTheProblemsOwnTypeIsReadWithAnyStride) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Problem p = problem("q3:k40:d8:bias:" + std::string(dtype_name(dtype)));
    Operands in = equal_scores(p, constant(v_shape(p), 2));
    for (const std::int64_t width : {40, 43}) {
      // Row i sees keys 0 to i and no other.
      in.bias = constant({1, 1, 3, width}, -infinity);
      in.bias.shape[3] = 40;
      in.bias.dtype = dtype;
      for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t j = 0; j <= i; ++j) in.bias.at(0, 0, i, j) = 0.5f;
      const auto answer = run(p, in);
      if (!answer) return;
      for (std::int64_t i = 0; i < 3; ++i) {
        expect_row(*answer, 0, 0, i, 2, 2);
        expect_lse(*answer, 0, 0, i, 0.5 + std::log(static_cast<double>(i + 1)));
      }
    }
    // The same for every key: a step of 0.
    in.bias = packed_tensor({1, 1, 1, 1}, {-1.5f});
    in.bias.dtype = dtype;
    const auto answer = run(p, in);
    if (answer) expect_all(*answer, 2, 2, std::log(40.0) - 1.5);
  }
}

TEST_P(Case, O025_RowsOfBiasAndMaskNeedNoAlignment) {
  const Problem p = problem("h16:q43:d8:bias:mask");
  Operands in = mean_index(p);
  in.bias = constant({1, 16, 43, 43}, 0);
  in.mask = mask_of({1, 16, 43, 43}, std::vector<float>(16 * 43 * 43, 1.0f));
  const auto answer = run(p, in);
  if (answer) expect_all(*answer, 21, 42, std::log(43.0));
}

TEST_P(Case, O026_BaseOfBiasAndMaskAlignedToTheElementAlone) {
  const Problem p = problem("q3:k129:d8:bias:mask");
  Operands in = equal_scores(p, constant(v_shape(p), 1));
  for (const std::int64_t offset : {1, 3}) {
    in.bias = constant({1, 1, 3, 129}, 0);
    in.mask = mask_of({1, 1, 3, 129}, std::vector<float>(3 * 129, 1.0f));
    for (HostTensor* tensor : {&in.bias, &in.mask}) {
      tensor->storage.insert(tensor->storage.begin(), static_cast<std::size_t>(offset), 0.0f);
      tensor->offset = offset;
    }
    const auto answer = run(p, in);
    if (answer) expect_all(*answer, 1, 1, std::log(129.0));
  }
}

TEST_P(Case, O032_AShiftByTheBiasChangesTheLseAlone) {
  const Problem p = problem("q1:k2:d1:scale=1:bias");
  Operands in{rows({-256}), rows({256, 256}), rows({2, 6})};
  for (const float shift : {0.0f, 65536.0f, -1e6f}) {
    in.bias = packed_tensor({1, 1, 1, 1}, {shift});
    const auto answer = run(p, in);
    if (!answer) return;
    expect_row(*answer, 0, 0, 0, 4, 6);
    expect_lse(*answer, 0, 0, 0, -65536 + std::log(2.0) + static_cast<double>(shift));
  }
}

TEST_P(Case, O036_WhatIsFarDownIsExactlyZero) {
  const Problem p = problem("q64:k4096:d64:bias");
  Operands in = mean_index(p);
  in.bias = constant({1, 1, 1, 4096}, -1e30f);
  for (std::int64_t j = 0; j < 64; ++j) in.bias.at(0, 0, 0, j) = 0;
  const auto answer = run(p, in);
  if (answer) expect_all(*answer, 31.5, 63, std::log(64.0));
}

// O-037: what the caller's thread does with subnormals before and after, and that it changes no answer.
TEST_P(Case, O037_FloatingPointControlStateIsLeftAsFound) {
  if (!on_cpu()) GTEST_SKIP() << "control state of a CPU thread";
  const volatile float tiny = 1e-40f, one = 1.0f;
  const unsigned found = _mm_getcsr();
  const Problem p = problem("hq4:q64:k300:d32:softcap=9:bias");
  Operands in = mean_index(p);
  for (std::size_t at = 0; at < in.q.storage.size(); ++at) in.q.storage[at] = static_cast<float>(at % 7) - 3;
  for (std::size_t at = 0; at < in.k.storage.size(); ++at) in.k.storage[at] = static_cast<float>(at % 5) - 2;
  in.bias = packed_tensor({1, 1, 1, 300});
  for (std::int64_t j = 0; j < 300; ++j) in.bias.at(0, 0, 0, j) = -static_cast<float>(j);
  constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
  _mm_setcsr(found & ~(flush_to_zero | denormals_are_zero));
  const auto clear = run(p, in);
  const float kept = tiny * one;
  _mm_setcsr(found | flush_to_zero | denormals_are_zero);
  const auto set = run(p, in);
  const bool still_set = (_mm_getcsr() & (flush_to_zero | denormals_are_zero)) != 0 && tiny * one == 0.0f;
  _mm_setcsr(found);
  EXPECT_EQ(kept, 1e-40f);
  EXPECT_TRUE(still_set);
  if (!clear || !set) return;
  for (std::size_t at = 0; at < clear->o.storage.size(); ++at)
    ASSERT_NEAR(set->o.storage[at], clear->o.storage[at], 1e-6 * (1 + std::abs(clear->o.storage[at])));
}

TEST_P(Case, O040_WindowBoundsAreInclusiveDistances) {
  const Problem p = problem("q6:k6:d4:window=2,0");
  const auto answer = run(p, mean_index(p));
  if (!answer) return;
  const double want[] = {0, 0.5, 1, 2, 3, 4};
  for (std::int64_t i = 0; i < 6; ++i) expect_row(*answer, 0, 0, i, want[i], 5);
  expect_lse(*answer, 0, 0, 5, 1.098612);
}

TEST_P(Case, O041_BothBoundsApplyWithoutCausality) {
  const Problem p = problem("q4:k4:d1:window=1,0");
  const auto answer = run(p, equal_scores(p, rows({1, 2, 4, 8})));
  if (!answer) return;
  const double want[] = {1, 1.5, 3, 6};
  for (std::int64_t i = 0; i < 4; ++i) expect_row(*answer, 0, 0, i, want[i], 8);
}

TEST_P(Case, O042_AWindowThatExcludesNothingChangesNothing) {
  const Problem p = problem("q4:k4:d1:causal:window=10,0"), without = problem("q4:k4:d1:causal");
  const Operands in = equal_scores(p, rows({1, 2, 4, 8}));
  const auto answer = run(p, in), plain = run(without, in);
  if (!answer || !plain) return;
  EXPECT_EQ(answer->o.storage, plain->o.storage);
  const double want[] = {1, 1.5, 7.0 / 3, 3.75};
  for (std::int64_t i = 0; i < 4; ++i) expect_row(*answer, 0, 0, i, want[i], 8);
}

TEST_P(Case, O043_EveryPathGivesTheSameWindow) {
  const Problem p = problem("q8:k8:d4:window=3,0");
  for (const std::int32_t splits : {1, 4}) {
    PlanOptions plan_options = options();
    plan_options.num_splits = splits;
    const auto answer = run(p, mean_index(p), plan_options);
    if (!answer) return;
    expect_row(*answer, 0, 0, 7, 5.5, 7);
    expect_lse(*answer, 0, 0, 7, 1.386294);
  }
}

TEST_P(Case, O043_AWindowAndAMaskBothApply) {
  const Problem p = problem("q8:k8:d4:window=3,0:mask");
  Operands in = mean_index(p);
  in.mask = mask_of({1, 1, 1, 8}, {1, 1, 1, 1, 1, 0, 1, 1});
  for (const std::int32_t splits : {1, 4}) {
    PlanOptions plan_options = options();
    plan_options.num_splits = splits;
    const auto answer = run(p, in, plan_options);
    if (!answer) return;
    expect_row(*answer, 0, 0, 7, 17.0 / 3, 7);
    expect_lse(*answer, 0, 0, 7, std::log(3.0));
    expect_row(*answer, 0, 0, 0, 0, 7);
  }
}

TEST_P(Case, O047_LseHoldsEveryOption) {
  // Scores 2, 5 tanh(2/5) = 1.8997; + 3; - 0.5 * 1, and the sink.
  const Problem p = problem("q1:k2:d1:scale=1:softcap=5:bias:alibi:sink");
  Operands in{rows({2}), rows({1, 1}), rows({2, 6})};
  in.bias = packed_tensor({1, 1, 1, 2}, {3, 0});
  in.alibi_slopes = per_head({0.5f});
  in.sink = per_head({1});
  const auto answer = run(p, in);
  if (!answer) return;
  const double capped = 5 * std::tanh(0.4), a = std::exp(capped + 3 - 0.5), b = std::exp(capped),
               c = std::exp(1.0);
  expect_row(*answer, 0, 0, 0, (2 * a + 6 * b) / (a + b + c), 6);
  expect_lse(*answer, 0, 0, 0, std::log(a + b + c));
}

TEST_P(Case, O048_ASinkIsTheLseOfARowThatSeesNothing) {
  const Problem p = problem("hq2:hk1:q3:k0:d4:sink");
  Operands in = equal_scores(p, constant(v_shape(p), 1));
  in.sink = per_head({-1.5f, -infinity});
  const auto answer = run(p, in);
  if (!answer) return;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t c = 0; c < 4; ++c) ASSERT_EQ(answer->o.at(0, 0, i, c), 0.0f);
    ASSERT_EQ(answer->lse.at(0, 0, i), -1.5f);
    expect_empty_row(*answer, 0, 1, i);
  }
}

TEST_P(Case, O073_SoftcapComesBeforeBiasAndMask) {
  for (const bool by_bias : {false, true}) {
    const Problem p = problem(by_bias ? "q1:k2:d1:softcap=1:bias" : "q1:k2:d1:softcap=1:mask");
    Operands in = equal_scores(p, rows({1, 100}));
    if (by_bias)
      in.bias = packed_tensor({1, 1, 1, 2}, {0, -infinity});
    else
      in.mask = mask_of({1, 1, 1, 2}, {1, 0});
    const auto answer = run(p, in);
    if (!answer) return;
    expect_row(*answer, 0, 0, 0, 1, 1);
    expect_lse(*answer, 0, 0, 0, 0);
  }
}

TEST_P(Case, O074_SoftcapHasEffect) {
  const Problem p = problem("q1:k2:d1:scale=1:softcap=5");
  const auto answer = run(p, rows({10}), rows({1, 0}), rows({1, 0}));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 0.991999, 1);
  expect_lse(*answer, 0, 0, 0, 4.828171);
}

TEST_P(Case, O075_FutureKeysHaveNoInfluenceWhateverTheCap) {
  const Problem p = problem("q4:k4:d1:causal:softcap=0.5");
  Operands in = equal_scores(p, rows({1, 2, 4, 8}));
  const auto before = run(p, in);
  in.v.at(0, 0, 3) = not_a_number;
  in.k.at(0, 0, 3) = 1e30f;
  const auto after = run(p, in);
  if (!before || !after) return;
  const double want[] = {1, 1.5, 2.333333};
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(after->o.at(0, 0, i), before->o.at(0, 0, i));
    EXPECT_NEAR(after->o.at(0, 0, i), want[i], 1e-6);
  }
}

TEST_P(Case, O076_O078_DropoutIsAFunctionOfSeedAndOffset) {
  const Problem p = problem("b2:h2:q128:k128:d128:dropout=0.5");
  // V is the identity: O is the row of weights.
  Operands in = equal_scores(p, constant(v_shape(p), 0));
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t j = 0; j < 128; ++j) in.v.at(b, h, j, j) = 1;
  in.dropout = {7, 0};
  const auto first = run(p, in), again = run(p, in);
  in.dropout.offset = 1;
  const auto other = run(p, in);
  if (!first || !again || !other) return;
  EXPECT_EQ(first->o.storage, again->o.storage);
  EXPECT_NE(first->o.storage, other->o.storage);
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t i = 0; i < 128; ++i) {
        expect_lse(*first, b, h, i, std::log(128.0));
        for (std::int64_t j = 0; j < 128; ++j) {
          const bool kept = dropout_keeps(dropout_key(7, 0, b, h), dropout_threshold(0.5), i, j);
          ASSERT_FLOAT_EQ(first->o.at(b, h, i, j), kept ? 2.0f / 128 : 0.0f)
              << b << " " << h << " " << i << " " << j;
        }
      }
}

TEST_P(Case, O077_KeptWeightsAreScaled) {
  const Problem p = problem("q64:k1:d8:dropout=0.25");
  Operands in = equal_scores(p, constant(v_shape(p), 3));
  in.dropout = {1, 2};
  const auto answer = run(p, in);
  if (!answer) return;
  int kept = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    const float value = answer->o.at(0, 0, i);
    ASSERT_TRUE(value == 0 || value == 4) << value;
    kept += value == 4;
  }
  EXPECT_GT(kept, 30);
  EXPECT_LT(kept, 64);
}

TEST_P(Case, O106_TrueMeansMayAttend) {
  const Problem p = problem("q1:k2:d1:mask");
  Operands in = equal_scores(p, rows({1, 5}));
  in.mask = mask_of({1, 1, 1, 2}, {1, 0});
  const auto answer = run(p, in);
  if (answer) expect_row(*answer, 0, 0, 0, 1, 1);
}

TEST_P(Case, O107_SizesOfOneAreBroadcastAndOtherMismatchesNameBothShapes) {
  const Problem p = problem("b2:h2:q3:k4:d1:mask");
  Operands in = mean_index(p);
  in.mask = mask_of({2, 1, 1, 4}, {1, 0, 0, 0, 1, 1, 1, 0});
  const auto answer = run(p, in);
  if (!answer) return;
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t i = 0; i < 3; ++i) {
      expect_row(*answer, 0, h, i, 0, 3);
      expect_row(*answer, 1, h, i, 1, 3);
    }
  in.mask = mask_of({2, 1, 1, 3}, {1, 0, 0, 1, 1, 1});
  const Result<Answer> refused =
      check::run_kernel(p, facts(), options(), in, packed_tensor({2, 2, 3, 1}), packed_tensor({2, 2, 3, 1}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(),
            "mask: shape must be (2, 2, 3, 4) or have 1 in its place for batch, heads, queries, keys, got "
            "(2, 1, 1, 3)");
}

}  // namespace
}  // namespace runmax::kit
