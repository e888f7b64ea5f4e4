// Laws of gradients that need no reference.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels/cpu/backward_case.hpp"
#include "tests/kernels/cpu/placed.hpp"

namespace runmax::testing_cpu {
namespace {

// Largest difference, as a share of the largest magnitude in `want`; infinite if a NaN is in the way.
double distance(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, size = 1e-30;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i]) || !std::isfinite(want[i])) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, static_cast<double>(std::abs(got[i] - want[i])));
    size = std::max(size, static_cast<double>(std::abs(want[i])));
  }
  return difference / size;
}

TEST(CpuBackwardLaws, TheBitsDependOnNeitherThreadsNorWhatTheBuffersHeld) {
  for (const char* text : {"q31:d64", "q97:k1200:d24", "hq8:hk2:q1:k1500:d64", "b2:hq4:hk2:q200:d32:causal",
                           "hq3:hk3:q500:k700:d16:window=100,0", "b40:q3:k5:d8", "q800:k900:d16:causal",
                           "q300:k40:d16:causal"}) {
    const Problem p = problem_of(text);
    const BackwardInputs in = backward_inputs(p);
    const GradientAnswer one = gradients_of(p, in, {.kernel = "cpu_backward", .threads = 1});
    for (const std::int32_t threads : {1, 2, 3, 7, 16})
      for (const unsigned char poison : {std::uint8_t{0x00}, std::uint8_t{0x7f}, std::uint8_t{0xff}})
        EXPECT_TRUE(
            same_bits(gradients_of(p, in, {.kernel = "cpu_backward", .threads = threads}, poison), one))
            << text << " with " << threads << " threads, buffers full of " << static_cast<int>(poison);
  }
}

TEST(CpuBackwardLaws, ABatchIsEachOfItsElementsAloneToTheBit) {
  for (const char* text :
       {"b3:hq4:hk2:q50:k130:d24:dv20:causal:seed=9", "b3:hq2:hk1:q110:k430:d16:in=hot:seed=9"}) {
    const Problem p = problem_of(text);
    const BackwardInputs in = backward_inputs(p);
    const GradientAnswer together = gradients_of(p, in);
    Problem one = p;
    one.batch = 1;
    for (std::int64_t b = 0; b < 3; ++b) {
      const auto part = [b](const std::vector<float>& data) {
        const auto size = static_cast<std::int64_t>(data.size()) / 3;
        return std::vector<float>(data.begin() + b * size, data.begin() + (b + 1) * size);
      };
      const BackwardInputs alone{{part(in.in.q), part(in.in.k), part(in.in.v)},
                                 part(in.dout),
                                 {part(in.answer.o), part(in.answer.lse)}};
      EXPECT_TRUE(
          same_bits(gradients_of(one, alone), {part(together.dq), part(together.dk), part(together.dv)}))
          << text << " batch element " << b;
    }
  }
}

TEST(CpuBackwardLaws, PermutedKeysPermuteTheirGradientsAndLeaveThoseOfTheQueries) {
  const Problem p = problem_of("hq2:hk1:q37:k1100:d32:seed=5");
  const BackwardInputs in = backward_inputs(p);
  const GradientAnswer before = gradients_of(p, in);
  std::vector<std::int64_t> order(static_cast<std::size_t>(p.kv_len));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t j = 0; j < order.size(); ++j) std::swap(order[j], order[(j * 7919 + 13) % order.size()]);
  const auto permuted = [&](const std::vector<float>& data) {
    std::vector<float> rows;
    for (const std::int64_t j : order)
      rows.insert(rows.end(), data.begin() + j * 32, data.begin() + (j + 1) * 32);
    return rows;
  };
  const GradientAnswer after =
      gradients_of(p, backward_inputs(p, {in.in.q, permuted(in.in.k), permuted(in.in.v)}, in.dout));
  EXPECT_LE(distance(after.dq, before.dq), 5e-6);
  EXPECT_LE(distance(after.dk, permuted(before.dk)), 5e-6);
  EXPECT_LE(distance(after.dv, permuted(before.dv)), 5e-6);
}

TEST(CpuBackwardLaws, AMaskedProblemIsTheSumOfItsRowsOverTheirKeysAlone) {
  for (const char* text :
       {"q70:k70:d16:causal:seed=8", "q20:k140:d16:causal:seed=8", "q70:k30:d16:causal:seed=8",
        "q70:k90:d16:causal=top_left:seed=8", "q90:k90:d16:window=9,4:seed=8"}) {
    const Problem p = problem_of(text);
    const BackwardInputs in = backward_inputs(p);
    const GradientAnswer all = gradients_of(p, in);
    GradientAnswer sum{std::vector<float>(all.dq.size()), std::vector<float>(all.dk.size()),
                       std::vector<float>(all.dv.size())};
    for (std::int64_t i = 0; i < p.query_len; ++i) {
      const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
      Problem one = p;
      one.causal = Causal::none;
      one.window = {};
      one.query_len = 1;
      one.kv_len = keys.end - keys.begin;
      const GradientAnswer alone =
          gradients_of(one, backward_inputs(one,
                                            {rows_of(in.in.q, 1, p.query_len, 16, i, i + 1),
                                             rows_of(in.in.k, 1, p.kv_len, 16, keys.begin, keys.end),
                                             rows_of(in.in.v, 1, p.kv_len, 16, keys.begin, keys.end)},
                                            rows_of(in.dout, 1, p.query_len, 16, i, i + 1)));
      std::copy(alone.dq.begin(), alone.dq.end(), sum.dq.begin() + i * 16);
      for (std::size_t e = 0; e < alone.dk.size(); ++e) {
        sum.dk[static_cast<std::size_t>(keys.begin * 16) + e] += alone.dk[e];
        sum.dv[static_cast<std::size_t>(keys.begin * 16) + e] += alone.dv[e];
      }
    }
    EXPECT_LE(distance(all.dq, sum.dq), 2e-6) << text;
    EXPECT_LE(distance(all.dk, sum.dk), 2e-6) << text;
    EXPECT_LE(distance(all.dv, sum.dv), 2e-6) << text;
  }
}

TEST(CpuBackwardLaws, TheKeysOfAGroupGetTheSumOverItsQueryHeads) {
  const Problem grouped = problem_of("hq6:hk2:q40:k90:d16:causal:seed=11");
  const BackwardInputs in = backward_inputs(grouped);
  const GradientAnswer of_group = gradients_of(grouped, in);
  Problem repeated = grouped;
  repeated.kv_heads = 6;
  BackwardInputs copies{{in.in.q, {}, {}}, in.dout, in.answer};
  const std::ptrdiff_t head = 90 * 16;
  for (std::ptrdiff_t h = 0; h < 6; ++h) {
    copies.in.k.insert(copies.in.k.end(), in.in.k.begin() + h / 3 * head,
                       in.in.k.begin() + (h / 3 + 1) * head);
    copies.in.v.insert(copies.in.v.end(), in.in.v.begin() + h / 3 * head,
                       in.in.v.begin() + (h / 3 + 1) * head);
  }
  const GradientAnswer of_heads = gradients_of(repeated, copies);
  EXPECT_TRUE(same_bits(of_group.dq, of_heads.dq));
  const auto sums = [&](const std::vector<float>& all) {
    std::vector<float> sum(static_cast<std::size_t>(2 * head));
    for (std::ptrdiff_t h = 0; h < 6; ++h)
      for (std::ptrdiff_t e = 0; e < head; ++e)
        sum[static_cast<std::size_t>(h / 3 * head + e)] += all[static_cast<std::size_t>(h * head + e)];
    return sum;
  };
  EXPECT_LE(distance(of_group.dk, sums(of_heads.dk)), 1e-6);
  EXPECT_LE(distance(of_group.dv, sums(of_heads.dv)), 1e-6);
}

TEST(CpuBackwardLaws, GradientsAreProportionalToDoutToTheBitForPowersOfTwo) {
  const Problem p = problem_of("hq2:hk1:q101:k230:d24:dv17:causal:seed=3");
  BackwardInputs in = backward_inputs(p);
  GradientAnswer want = gradients_of(p, in);
  for (float& x : in.dout) x *= -4;
  for (std::vector<float>* array : {&want.dq, &want.dk, &want.dv})
    for (float& x : *array) x *= -4;
  const GradientAnswer got = gradients_of(p, in);
  for (std::size_t e = 0; e < want.dq.size(); ++e) ASSERT_EQ(got.dq[e], want.dq[e]);
  for (std::size_t e = 0; e < want.dk.size(); ++e) ASSERT_EQ(got.dk[e], want.dk[e]);
  for (std::size_t e = 0; e < want.dv.size(); ++e) ASSERT_EQ(got.dv[e], want.dv[e]);
}

TEST(CpuBackwardMemory, AnyStridesAndAnyAlignmentGiveTheBitsOfPackedMemory) {
  for (const char* text : {"b2:hq4:hk2:q21:k70:d20:dv12:causal", "b2:hq2:hk2:q130:k150:d64:dv64",
                           "b2:hq2:hk1:q1:k600:d64:dv96"}) {
    const Problem p = problem_of(text);
    const BackwardInputs in = backward_inputs(p);
    const GradientAnswer want = gradients_of(p, in);
    const Plan planned = plan_backward(p, cpu_with(2)).value();
    const Shape q_shape{p.batch, p.query_heads, p.query_len, p.head_dim},
        k_shape{p.batch, p.kv_heads, p.kv_len, p.head_dim},
        v_shape{p.batch, p.kv_heads, p.kv_len, p.value_dim},
        o_shape{p.batch, p.query_heads, p.query_len, p.value_dim},
        row{p.batch, p.query_heads, p.query_len, 1};
    for (std::size_t n = 0; n < std::size(arrangements); ++n)
      for (const std::int64_t offset : {0, 1, 3}) {
        const auto at = [&](const std::vector<float>& data, Shape shape) {
          return place(data, shape, arrangements[n](shape), offset);
        };
        const auto empty = [&](const std::vector<float>& like, Shape shape) {
          return at(std::vector<float>(like.size(), nan), shape);
        };
        Placed q = at(in.in.q, q_shape), k = at(in.in.k, k_shape), v = at(in.in.v, v_shape),
               o = at(in.answer.o, o_shape), lse = at(in.answer.lse, row), dout = at(in.dout, o_shape),
               dq = empty(want.dq, q_shape), dk = empty(want.dk, k_shape), dv = empty(want.dv, v_shape);
        GuardedBytes workspace(planned.workspace_bytes);
        Tensors tensors;
        tensors.q = q.view;
        tensors.k = k.view;
        tensors.v = v.view;
        tensors.o = o.view;
        tensors.lse = lse.view;
        Gradients gradients;
        gradients.dout = dout.view;
        gradients.dq = dq.view;
        gradients.dk = dk.view;
        gradients.dv = dv.view;
        ASSERT_TRUE(run_backward(planned, tensors, gradients, {workspace.data(), workspace.bytes()}).ok());
        EXPECT_TRUE(same_bits({gathered(dq), gathered(dk), gathered(dv)}, want))
            << text << " arrangement " << n;
        EXPECT_TRUE(workspace.intact());
        const auto written = [](const Placed& placed) {
          return static_cast<std::size_t>(std::count_if(placed.memory.begin(), placed.memory.end(),
                                                        [](float x) { return !std::isnan(x); }));
        };
        EXPECT_EQ(written(dq), want.dq.size()) << "wrote between the elements of dq";
        EXPECT_EQ(written(dk), want.dk.size()) << "wrote between the elements of dk";
        EXPECT_EQ(written(dv), want.dv.size()) << "wrote between the elements of dv";
      }
  }
}

// A NaN or infinity in a key shows in the rows that see it, in a query row in itself, and in the keys that
// such rows see; everything else keeps its bits.
class CpuBackwardLeaks : public ::testing::TestWithParam<const char*> {};

TEST_P(CpuBackwardLeaks, WhatAMaskHidesChangesNoBit) {
  const Problem p = problem_of(GetParam());
  const BackwardInputs clean = backward_inputs(p);
  const GradientAnswer before = gradients_of(p, clean);
  const auto sees = [&](std::int64_t i, std::int64_t j) {
    const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
    return keys.begin <= j && j < keys.end;
  };
  const auto row_is = [](const std::vector<float>& a, const std::vector<float>& b, std::int64_t row,
                         std::int64_t dim) {
    return std::memcmp(a.data() + row * dim, b.data() + row * dim,
                       static_cast<std::size_t>(dim) * sizeof(float)) == 0;
  };
  const auto any_nan = [](const std::vector<float>& a, std::int64_t row, std::int64_t dim) {
    return std::any_of(a.begin() + row * dim, a.begin() + (row + 1) * dim,
                       [](float x) { return std::isnan(x); });
  };
  enum Where { in_k, in_v, in_q, in_dout };
  for (const Where where : {in_k, in_v, in_q, in_dout})
    for (const float bad : {nan, infinity}) {
      const bool of_key = where == in_k || where == in_v;
      const std::int64_t length = of_key ? p.kv_len : p.query_len;
      for (const std::int64_t at : {std::int64_t{0}, length / 3, length / 2, length - 1}) {
        inputs::HostInputs in = clean.in;
        std::vector<float> dout = clean.dout;
        const std::int64_t dim = where == in_v || where == in_dout ? p.value_dim : p.head_dim;
        (where == in_k   ? in.k
         : where == in_v ? in.v
         : where == in_q ? in.q
                         : dout)[static_cast<std::size_t>(at * dim + 3)] = bad;
        const GradientAnswer after = gradients_of(p, backward_inputs(p, in, dout));
        std::vector<bool> row_touched(static_cast<std::size_t>(p.query_len)),
            key_touched(static_cast<std::size_t>(p.kv_len));
        for (std::int64_t i = 0; i < p.query_len; ++i)
          row_touched[static_cast<std::size_t>(i)] = of_key ? sees(i, at) : i == at;
        for (std::int64_t j = 0; j < p.kv_len; ++j)
          for (std::int64_t i = 0; i < p.query_len; ++i)
            if (row_touched[static_cast<std::size_t>(i)] && sees(i, j))
              key_touched[static_cast<std::size_t>(j)] = true;
        for (std::int64_t i = 0; i < p.query_len; ++i) {
          if (row_touched[static_cast<std::size_t>(i)]) {
            const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
            if (std::isnan(bad) && keys.begin < keys.end) {
              ASSERT_TRUE(any_nan(after.dq, i, p.head_dim))
                  << "hidden in dq row " << i << ", operand " << where << " at " << at;
            }
          } else {
            ASSERT_TRUE(row_is(after.dq, before.dq, i, p.head_dim))
                << "dq row " << i << ", operand " << where << " at " << at;
          }
        }
        for (std::int64_t j = 0; j < p.kv_len; ++j)
          if (!key_touched[static_cast<std::size_t>(j)]) {
            ASSERT_TRUE(row_is(after.dk, before.dk, j, p.head_dim))
                << "dk key " << j << ", operand " << where << " at " << at;
            ASSERT_TRUE(row_is(after.dv, before.dv, j, p.value_dim))
                << "dv key " << j << ", operand " << where << " at " << at;
          }
      }
    }
}

std::string problem_name(const ::testing::TestParamInfo<const char*>& test) { return test_name(test.param); }
INSTANTIATE_TEST_SUITE_P(Problems, CpuBackwardLeaks,
                         ::testing::Values("q70:k70:d16:causal", "q20:k240:d16:causal", "q130:k30:d16:causal",
                                           "q110:k230:d16:dv20:window=9,4", "q100:k90:d16:causal=top_left"),
                         problem_name);

TEST(CpuBackwardMemory, ARowWhoseLseIsMinusInfinityAddsNothingWhateverItHolds) {
  // As a mask of -inf leaves it: rows in the middle of a tile.
  const Problem p = problem_of("q50:k120:d16:seed=4");
  BackwardInputs in = backward_inputs(p);
  for (const std::size_t i : {0u, 7u, 23u, 49u}) {
    in.answer.lse[i] = -infinity;
    for (std::size_t c = 0; c < 16; ++c) in.answer.o[i * 16 + c] = 0;
  }
  const GradientAnswer clean = gradients_of(p, in);
  for (const std::size_t i : {0u, 7u, 23u, 49u})
    for (std::size_t c = 0; c < 16; ++c) {
      EXPECT_EQ(clean.dq[i * 16 + c], 0.0f);
      in.in.q[i * 16 + c] = nan;
      in.dout[i * 16 + c] = infinity;
    }
  EXPECT_TRUE(same_bits(gradients_of(p, in), clean));
  for (const std::vector<float>* array : {&clean.dq, &clean.dk, &clean.dv})
    for (const float x : *array) ASSERT_TRUE(std::isfinite(x));
}

TEST(CpuBackwardMemory, BroadcastInputsOfStrideZeroAreReadAsTheyLie) {
  const Problem p = problem_of("hq2:hk2:q5:k40:d16");
  BackwardInputs in = backward_inputs(p);
  for (std::size_t e = 0; e < in.dout.size(); ++e) in.dout[e] = in.dout[e % 16];
  const GradientAnswer want = gradients_of(p, in);
  GradientAnswer got{std::vector<float>(want.dq.size(), nan), std::vector<float>(want.dk.size(), nan),
                     std::vector<float>(want.dv.size(), nan)};
  const Plan planned = plan_backward(p, cpu_with(2)).value();
  GuardedBytes workspace(planned.workspace_bytes);
  const auto view = [](const std::vector<float>& data, Shape shape) {
    return packed_view(data.data(), DType::f32, shape, Layout::bhsd);
  };
  Tensors tensors;
  tensors.q = view(in.in.q, {1, 2, 5, 16});
  tensors.k = view(in.in.k, {1, 2, 40, 16});
  tensors.v = view(in.in.v, {1, 2, 40, 16});
  tensors.o = view(in.answer.o, {1, 2, 5, 16});
  tensors.lse = view(in.answer.lse, {1, 2, 5, 1});
  Gradients gradients;
  gradients.dout = {in.dout.data(), DType::f32, {}, {1, 2, 5, 16}, {0, 0, 0, 1}};
  gradients.dq = view(got.dq, {1, 2, 5, 16});
  gradients.dk = view(got.dk, {1, 2, 40, 16});
  gradients.dv = view(got.dv, {1, 2, 40, 16});
  ASSERT_TRUE(run_backward(planned, tensors, gradients, {workspace.data(), workspace.bytes()}).ok());
  EXPECT_TRUE(same_bits(got, want));
}

}  // namespace
}  // namespace runmax::testing_cpu
