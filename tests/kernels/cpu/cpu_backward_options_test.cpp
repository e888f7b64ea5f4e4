// Gradients under every option: dQ, dK and dV, dBias for every way of broadcasting, and dSink.
#include "gate/gradient_gate.hpp"
#include "inputs/draw_dout.hpp"
#include "kernels/cpu/option_case.hpp"
#include "kernels/forward/cpu/tiles.hpp"
#include "reference/gradient_reference.hpp"
#include "runmax/backward.hpp"

namespace runmax::testing_cpu {
namespace {

struct OptionGradients {
  std::vector<float> dq, dk, dv, dbias, dsink;
};

bool same_bits(const OptionGradients& a, const OptionGradients& b) {
  return testing_cpu::same_bits(a.dq, b.dq) && testing_cpu::same_bits(a.dk, b.dk) &&
         testing_cpu::same_bits(a.dv, b.dv) && testing_cpu::same_bits(a.dbias, b.dbias) &&
         testing_cpu::same_bits(a.dsink, b.dsink);
}

// Forward by the engine, then backward with NaN-filled outputs and workspace.
OptionGradients gradients_of(const OptionCase& c, const std::vector<float>& dout, std::int32_t threads = 2) {
  const Problem& p = c.problem;
  Answer forward = c.run();
  const Tensors tensors = c.tensors(forward);
  const auto filled = [](std::int64_t count) {
    return std::vector<float>(static_cast<std::size_t>(count), nan);
  };
  OptionGradients got;
  got.dq = filled(p.batch * p.query_heads * p.query_len * p.head_dim);
  got.dk = filled(p.batch * p.kv_heads * p.kv_len * p.head_dim);
  got.dv = filled(p.batch * p.kv_heads * p.kv_len * p.value_dim);
  got.dbias = filled(static_cast<std::int64_t>(c.options.bias.size()));
  got.dsink = filled(p.sink ? p.query_heads : 0);
  const auto view = [&](const std::vector<float>& data, std::int64_t heads, std::int64_t length,
                        std::int64_t dim) {
    return packed_view(data.data(), DType::f32, {p.batch, heads, length, dim}, Layout::bhsd);
  };
  Gradients gradients;
  gradients.dout = view(dout, p.query_heads, p.query_len, p.value_dim);
  gradients.dq = view(got.dq, p.query_heads, p.query_len, p.head_dim);
  gradients.dk = view(got.dk, p.kv_heads, p.kv_len, p.head_dim);
  gradients.dv = view(got.dv, p.kv_heads, p.kv_len, p.value_dim);
  if (p.bias) gradients.dbias = packed_view(got.dbias.data(), DType::f32, c.options.bias_shape, Layout::bhsd);
  if (p.sink)
    gradients.dsink = packed_view(got.dsink.data(), DType::f32, {1, p.query_heads, 1, 1}, Layout::bhsd);
  const Result<Plan> planned = plan_backward(p, cpu_with(threads), {.kernel = "", .threads = threads});
  EXPECT_TRUE(planned.ok()) << planned.status().message();
  if (!planned.ok()) return got;
  GuardedBytes workspace(planned.value().workspace_bytes);
  const Status status =
      run_backward(planned.value(), tensors, gradients, {workspace.data(), workspace.bytes()});
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(workspace.intact());
  return got;
}

void expect_gated(const OptionCase& c, const std::vector<float>& dout, const OptionGradients& got) {
  const Problem& p = c.problem;
  const std::int64_t group = p.query_heads / p.kv_heads;
  const std::int64_t terms = std::max(p.kv_len, p.query_len * group);
  gate::GradientGate dq("dq", terms), dk("dk", terms), dv("dv", terms),
      dbias("dbias", std::max(terms, p.batch * p.query_heads * p.query_len)),
      dsink("dsink", std::max(terms, p.batch * p.query_len));
  struct Sum {
    double want = 0, magnitude = 0, weighed = 0;
    void add(double term, double size, double s) {
      want += term;
      magnitude += size;
      weighed += size * s;
    }
  };
  std::vector<Sum> bias_sums(got.dbias.size()), sink_sums(got.dsink.size());
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t kv = 0; kv < p.kv_heads; ++kv) {
      reference::KeyGradients<double> keys(p.kv_len, p.head_dim, p.value_dim);
      for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        const reference::Head<float> head = reference_head(p, c.in, b, h);
        const reference::ScoreOptions options = c.reference_options(b, h);
        reference::GradientReference<double> reference(head);
        reference.keep_score_gradients();
        const std::int64_t first = (b * p.query_heads + h) * p.query_len;
        const reference::Matrix<float> dout_rows{dout.data() + first * p.value_dim, p.value_dim, 1};
        for (std::int64_t i = 0; i < p.query_len; ++i) {
          const KeyRange range = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
          reference::RowGradient<double> row;
          reference.row(head, dout_rows, i, {range.begin, range.end}, row, &keys, options);
          dq.add_row(b, h, i, row, got.dq.data() + (first + i) * p.head_dim, 1);
          for (std::int64_t j = 0; j < p.kv_len && p.bias; ++j)
            bias_sums[OptionCase::place(c.options.bias_shape, b, h, i, j)].add(
                row.score_gradient[static_cast<std::size_t>(j)],
                row.score_gradient_magnitude[static_cast<std::size_t>(j)], row.score_magnitude);
          if (p.sink)
            sink_sums[static_cast<std::size_t>(h)].add(row.sink, row.sink_magnitude, row.score_magnitude);
        }
      }
      const auto head_dim = static_cast<std::size_t>(p.head_dim),
                 value_dim = static_cast<std::size_t>(p.value_dim);
      for (std::int64_t j = 0; j < p.kv_len; ++j) {
        const std::int64_t at = (b * p.kv_heads + kv) * p.kv_len + j;
        const auto own = static_cast<std::size_t>(j);
        dk.add_key(b, kv, j, keys.dk, keys.dk_magnitude, keys.dk_score_magnitude, own * head_dim, head_dim,
                   got.dk.data() + at * p.head_dim, 1);
        dv.add_key(b, kv, j, keys.dv, keys.dv_magnitude, keys.dv_score_magnitude, own * value_dim, value_dim,
                   got.dv.data() + at * p.value_dim, 1);
      }
    }
  for (std::size_t e = 0; e < bias_sums.size(); ++e)
    dbias.add_element(0, 0, 0, static_cast<std::int64_t>(e), bias_sums[e].want, bias_sums[e].magnitude,
                      bias_sums[e].weighed, got.dbias[e]);
  for (std::size_t h = 0; h < sink_sums.size(); ++h)
    dsink.add_element(0, static_cast<std::int64_t>(h), 0, 0, sink_sums[h].want, sink_sums[h].magnitude,
                      sink_sums[h].weighed, got.dsink[h]);
  for (const gate::GradientGate* gate : {&dq, &dk, &dv, &dbias, &dsink}) {
    const gate::Verdict verdict = gate->verdict();
    if (verdict.compared == 0) continue;
    EXPECT_TRUE(verdict.passed) << gate::describe(verdict, gate->tensor(), gate->rule(), to_text(p));
    ::testing::Test::RecordProperty(gate->tensor(), std::to_string(verdict.gate_fraction));
  }
}

class CpuBackwardOptions : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override { cpu::force_tile_target(0); }
};

TEST_P(CpuBackwardOptions, HoldTheGradientGateOnEveryTargetWithTheSameBitsForAnyThreads) {
  const OptionCase c(GetParam());
  const std::vector<float> dout = inputs::draw_dout(c.problem);
  for (const std::int64_t target : cpu::tile_targets()) {
    cpu::force_tile_target(target);
    const OptionGradients got = gradients_of(c, dout);
    expect_gated(c, dout, got);
    for (const std::int32_t threads : {1, 3, 7}) EXPECT_TRUE(same_bits(gradients_of(c, dout, threads), got));
  }
}

std::string problem_name(const ::testing::TestParamInfo<const char*>& test) { return test_name(test.param); }
INSTANTIATE_TEST_SUITE_P(
    Problems, CpuBackwardOptions,
    ::testing::Values("q70:k130:d24:softcap=2", "q70:k130:d24:softcap=30:causal", "q130:k500:d16:mask",
                      "b2:hq4:hk2:q33:k70:d16:mask:causal", "hq3:hk1:q20:k410:d16:bias",
                      "q97:k200:d32:bias:softcap=5", "b2:hq4:hk2:q50:k60:d16:alibi:causal",
                      "b2:hq4:hk2:q50:k60:d16:sink", "q100:k60:d16:sink:causal", "q60:k200:d16:sink:mask",
                      "b2:hq2:hk1:q50:k400:d16:dropout=0.25", "q101:k103:d17:dv5:dropout=0.5:causal",
                      "q60:k90:d16:dropout=0.1:mask:bias:sink:softcap=8:alibi:causal", "q7:k0:d8:sink",
                      "q3:k5:d8:bias", "q0:k5:d8:bias:sink", "q64:k300:d64:bias:in=hot"),
    problem_name);

TEST(CpuBackwardBias, EveryWayOfBroadcastingSumsWhatSharesAnElement) {
  const Problem p = problem_of("b2:hq4:hk2:q40:k420:d16:bias:causal");
  for (int shared = 0; shared < 16; ++shared) {
    OptionCase c(p);
    const std::array<std::int64_t, 4> full{2, 4, 40, 420};
    std::int64_t size = 1;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      c.options.bias_shape[axis] = (shared >> axis & 1) != 0 ? 1 : full[axis];
      size *= c.options.bias_shape[axis];
    }
    inputs::Random random(static_cast<std::uint64_t>(shared), 5);
    c.options.bias.clear();
    for (std::int64_t e = 0; e < size; ++e) c.options.bias.push_back(random.normal());
    const std::vector<float> dout = inputs::draw_dout(p);
    const OptionGradients got = gradients_of(c, dout);
    expect_gated(c, dout, got);
    EXPECT_TRUE(same_bits(gradients_of(c, dout, 1), got)) << shared;
    EXPECT_TRUE(same_bits(gradients_of(c, dout, 7), got)) << shared;
  }
}

TEST(CpuBackwardMask, WhatAMaskHidesChangesNoBit) {
  const OptionCase clean("q70:k230:d16:mask");
  const std::vector<float> dout = inputs::draw_dout(clean.problem);
  const OptionGradients before = gradients_of(clean, dout);
  const Problem& p = clean.problem;
  // A key that many rows see and many do not.
  for (const std::int64_t key : {std::int64_t{3}, std::int64_t{70}})
    for (const bool in_k : {true, false}) {
      OptionCase c = clean;
      (in_k ? c.in.k : c.in.v)[static_cast<std::size_t>(key * 16 + 5)] = nan;
      const OptionGradients after = gradients_of(c, dout);
      std::int64_t hidden = 0;
      for (std::int64_t i = 0; i < p.query_len; ++i) {
        const bool sees = c.options.mask[OptionCase::place(c.options.mask_shape, 0, 0, i, key)] != 0;
        const auto row = static_cast<std::size_t>(i * 16);
        if (sees) {
          EXPECT_TRUE(std::isnan(after.dq[row + 5])) << "row " << i;
          continue;
        }
        ++hidden;
        for (std::size_t e = 0; e < 16; ++e) ASSERT_EQ(after.dq[row + e], before.dq[row + e]) << "row " << i;
      }
      EXPECT_GT(hidden, 5);
    }
}

TEST(CpuBackwardBias, ANaNShowsInItsOwnGradientAndInItsRow) {
  OptionCase c("q40:k230:d16:bias");
  const Problem& p = c.problem;
  c.options.bias_shape = {1, 1, p.query_len, p.kv_len};
  c.options.bias.assign(static_cast<std::size_t>(p.query_len * p.kv_len), 0.25f);
  const std::vector<float> dout = inputs::draw_dout(p);
  const OptionGradients before = gradients_of(c, dout);
  c.options.bias[static_cast<std::size_t>(7 * p.kv_len + 200)] = nan;
  const OptionGradients after = gradients_of(c, dout);
  for (std::int64_t i = 0; i < p.query_len; ++i) {
    for (std::int64_t e = i * 16; e < (i + 1) * 16; ++e)
      EXPECT_TRUE(i == 7 ? std::isnan(after.dq[static_cast<std::size_t>(e)])
                         : after.dq[static_cast<std::size_t>(e)] == before.dq[static_cast<std::size_t>(e)])
          << "row " << i;
    for (std::int64_t e = i * p.kv_len; e < (i + 1) * p.kv_len; ++e)
      EXPECT_TRUE(i == 7
                      ? std::isnan(after.dbias[static_cast<std::size_t>(e)])
                      : after.dbias[static_cast<std::size_t>(e)] == before.dbias[static_cast<std::size_t>(e)])
          << "row " << i;
  }
}

TEST(CpuBackwardOptionCases, O002ARowThatSeesNothingAddsNothing) {
  OptionCase c("q2:d1:mask");
  c.in.q = {1, 1};
  c.in.k = {0, 0};
  c.in.v = {2, 6};
  c.options.mask_shape = {1, 1, 2, 2};
  c.options.mask = {1, 1, 0, 0};
  const OptionGradients got = gradients_of(c, {1, 1});
  EXPECT_EQ(got.dq, (std::vector<float>{0, 0}));
  EXPECT_EQ(got.dk, (std::vector<float>{-1, 1}));
  EXPECT_EQ(got.dv, (std::vector<float>{0.5, 0.5}));
}

TEST(CpuBackwardOptionCases, O057ABiasGetsItsGradient) {
  OptionCase c("q1:k2:d1:bias");
  c.in.q = {0};
  c.in.k = {0, 0};
  c.in.v = {0, 1};
  c.options.bias_shape = {1, 1, 1, 2};
  c.options.bias = {0, 0};
  const OptionGradients got = gradients_of(c, {1});
  EXPECT_EQ(got.dbias, (std::vector<float>{-0.25, 0.25}));
}

TEST(CpuBackwardOptionCases, O076TheDroppedWeightsAreThoseOfForward) {
  // V and K zero but for what counts: dV of a key is the number of rows that kept it, over 1 - p and the
  // length.
  OptionCase c("q128:k128:d8:dropout=0.25");
  std::fill(c.in.q.begin(), c.in.q.end(), 0.0f);
  const std::vector<float> dout(128 * 8, 1.0f);
  const OptionGradients got = gradients_of(c, dout);
  const PhiloxKey key = dropout_key(c.options.dropout_seed, c.options.dropout_offset, 0, 0);
  for (std::int64_t j = 0; j < 128; ++j) {
    int kept = 0;
    for (std::int64_t i = 0; i < 128; ++i) kept += dropout_keeps(key, dropout_threshold(0.25), i, j) ? 1 : 0;
    EXPECT_NEAR(got.dv[static_cast<std::size_t>(j * 8)], kept / 0.75 / 128, 1e-5) << "key " << j;
  }
}

}  // namespace
}  // namespace runmax::testing_cpu
