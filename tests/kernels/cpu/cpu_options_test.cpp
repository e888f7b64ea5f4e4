// cpu_online with the options that change scores and weights, on every instruction set that this machine
// runs: against the reference, with NaN behind what is hidden, and by laws that need no reference.
#include <hwy/targets.h>
#include <time.h>

#include <functional>
#include <numeric>

#include "kernels/forward/cpu/score_options.hpp"
#include "tests/kernels/cpu/option_case.hpp"

namespace runmax::testing_cpu {
namespace {

const char* const problems[] = {
    // Each alone, on both sides of a panel (16), a word of visible keys (64), a chain (128), a tile (512).
    "q19:k17:mask", "q97:k129:mask", "q20:k1031:d32:mask", "q97:k129:bias", "q20:k1031:d32:bias",
    "q33:k64:softcap=2", "q33:k700:softcap=30:scale=2", "q33:k63:alibi", "hq12:hk4:q20:k600:d32:alibi",
    "hq3:q9:k513:sink", "q9:k0:sink", "q40:k300:dropout=0.3", "hq2:q7:k1030:d16:dropout=0.9",
    // With what decides otherwise which keys a row sees.
    "b2:hq4:hk2:q100:k100:d32:causal:mask", "q130:k50:d32:causal:mask", "q64:k700:d32:causal=top_left:bias",
    "q300:k300:d16:causal:window=40,0:mask:bias", "q90:k90:d16:window=2,3:mask", "q600:k600:d16:alibi:causal",
    "q50:k80:d32:alibi:causal=top_left",
    // All together.
    "b2:hq6:hk2:q33:k530:d40:dv24:causal:softcap=5:mask:bias:alibi:sink:dropout=0.2",
    "hq3:hk1:q5:k2100:d64:window=900,0:softcap=20:mask:bias:alibi:sink:dropout=0.5",
    // Split over keys, few rows, large scores, one sign.
    "q1:k8192:d64:mask:sink", "hq8:hk2:q1:k5000:d128:bias:alibi", "q20:k4099:d32:causal:mask:dropout=0.1",
    "q40:k1000:d64:in=onesign:mask:bias", "q40:k1000:d64:in=wide:mask", "q40:k1000:d64:in=hot:bias:alibi",
    "q40:k1000:d64:in=hot:softcap=30", "q40:k1000:d96:in=needle:bias:sink", "q40:k4096:d64:in=loud:mask",
    "q20:k300:d64:scale=-0.2:bias", "q20:k300:d64:scale=0:bias", "q20:k300:d8:softcap=1e-3:bias"};

class CpuOptions : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { cpu::force_tile_target(GetParam()); }
  void TearDown() override { cpu::force_tile_target(0); }
};

TEST_P(CpuOptions, AgreeWithTheReference) {
  ASSERT_STREQ(cpu::option_functions().target, hwy::TargetName(GetParam()));
  for (const char* text : problems) {
    SCOPED_TRACE(text);
    const OptionCase c{std::string(text)};
    c.expect_gated(c.run(), 40);
  }
}

TEST_P(CpuOptions, HiddenKeysMayHoldAnything) {
  for (const char* text : {"q40:k700:d24:dv70:mask", "q7:k140:d8:bias:sink", "q100:k100:d64:causal:mask:bias",
                           "q1:k3000:d16:mask:dropout=0.5"}) {
    SCOPED_TRACE(text);
    OptionCase c{std::string(text)};
    const Problem& p = c.problem;
    // Every fifth key is hidden from all rows.
    for (std::size_t at = 0; at < c.options.mask.size(); ++at)
      if (static_cast<std::int64_t>(at) % p.kv_len % 5 == 2) c.options.mask[at] = 0;
    for (std::size_t at = 0; !p.mask && at < c.options.bias.size(); ++at)
      if (static_cast<std::int64_t>(at) % p.kv_len % 5 == 2) c.options.bias[at] = -infinity;
    const Answer want = c.run();
    const float poison[] = {nan, infinity, -infinity};
    for (std::int64_t j = 2; j < p.kv_len; j += 5) {
      const float value = poison[j % 3];
      std::fill_n(c.in.k.begin() + j * p.head_dim, p.head_dim, value);
      std::fill_n(c.in.v.begin() + j * p.value_dim, p.value_dim, value);
      for (std::size_t row = 0; p.mask && row * static_cast<std::size_t>(p.kv_len) < c.options.bias.size();
           ++row)
        c.options.bias[row * static_cast<std::size_t>(p.kv_len) + static_cast<std::size_t>(j)] = nan;
    }
    const Answer got = c.run();
    EXPECT_TRUE(same_bits(got.o, want.o));
    EXPECT_TRUE(same_bits(got.lse, want.lse));
  }
}

TEST_P(CpuOptions, AVisibleNaNShowsInExactlyItsRowsAndChannels) {
  for (const bool in_key : {true, false}) {
    OptionCase c{std::string("q50:k300:d16:dv20:mask:causal")};
    const Problem& p = c.problem;
    inputs::Random random(6);
    for (std::uint8_t& sees : c.options.mask) sees = random.below(2) == 0;
    const Answer clean = c.run();
    const std::int64_t bad = 270, channel = 3;
    (in_key ? c.in.k[static_cast<std::size_t>(bad * p.head_dim)]
            : c.in.v[static_cast<std::size_t>(bad * p.value_dim + channel)]) = nan;
    const Answer got = c.run();
    int hit = 0, missed = 0;
    for (std::int64_t i = 0; i < p.query_len; ++i) {
      const bool sees = bad <= i + p.kv_len - p.query_len &&
                        c.options.mask[static_cast<std::size_t>(i * p.kv_len + bad)] != 0;
      ++(sees ? hit : missed);
      EXPECT_EQ(std::isnan(got.lse[static_cast<std::size_t>(i)]), sees && in_key) << "row " << i;
      for (std::int64_t d = 0; d < p.value_dim; ++d) {
        const auto at = static_cast<std::size_t>(i * p.value_dim + d);
        const bool shows = sees && (in_key || d == channel);
        EXPECT_EQ(std::isnan(got.o[at]), shows) << "row " << i << " channel " << d;
        EXPECT_TRUE(shows || got.o[at] == clean.o[at]) << "row " << i << " channel " << d;
      }
    }
    EXPECT_GT(hit, 3);
    EXPECT_GT(missed, 3);
  }
}

TEST_P(CpuOptions, ANaNBiasOrSlopeOrSinkShowsInExactlyItsRows) {
  for (const char* text : {"q9:k150:d8:bias", "q9:k150:d8:bias:softcap=5", "q9:k150:d8:bias:mask"}) {
    OptionCase c{std::string(text)};
    const Problem& p = c.problem;
    c.options.bias_shape = {1, 1, p.query_len, p.kv_len};
    c.options.bias.assign(static_cast<std::size_t>(p.query_len * p.kv_len), 0.25f);
    std::fill(c.options.mask.begin(), c.options.mask.end(), std::uint8_t{1});
    const Answer clean = c.run();
    for (const std::int64_t bad : {0, 77, 149}) {
      c.options.bias[static_cast<std::size_t>(4 * p.kv_len + bad)] = nan;
      const Answer got = c.run();
      c.options.bias[static_cast<std::size_t>(4 * p.kv_len + bad)] = 0.25f;
      for (std::int64_t i = 0; i < p.query_len; ++i) {
        EXPECT_EQ(std::isnan(got.lse[static_cast<std::size_t>(i)]), i == 4) << text << " row " << i;
        for (std::int64_t d = 0; d < p.value_dim; ++d) {
          const auto at = static_cast<std::size_t>(i * p.value_dim + d);
          EXPECT_TRUE(i == 4 ? std::isnan(got.o[at]) : got.o[at] == clean.o[at]) << text << " row " << i;
        }
      }
    }
  }
  for (const char* text : {"hq2:q5:k40:d8:alibi", "hq2:q5:k40:d8:sink"}) {
    OptionCase c{std::string(text)};
    (c.problem.alibi ? c.options.alibi_slopes : c.options.sink)[1] = nan;
    const Answer got = c.run();
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(std::isnan(got.lse[i]), i >= 5) << text << " row " << i;
    for (std::size_t at = 0; at < got.o.size(); ++at)
      EXPECT_EQ(std::isnan(got.o[at]), at >= got.o.size() / 2) << text << " element " << at;
  }
}

// A weight of 0 that a row does see meets its value all the same.
TEST_P(CpuOptions, AVisibleKeyOfNoWeightIsNotHidden) {
  OptionCase c{std::string("q2:k40:d4:bias:mask")};
  std::fill(c.options.bias.begin(), c.options.bias.end(), 0.0f);
  std::fill(c.options.mask.begin(), c.options.mask.end(), std::uint8_t{1});
  c.options.bias[7] = -1e30f;  // row 0, key 7: visible, weight 0
  c.options.mask[40 + 7] = 0;  // row 1, key 7: hidden
  c.in.v[7 * 4] = infinity;
  const Answer got = c.run();
  EXPECT_TRUE(std::isnan(got.o[0]));
  EXPECT_TRUE(std::isfinite(got.o[1]));
  EXPECT_TRUE(std::isfinite(got.o[4]));
}

std::string target_name(const ::testing::TestParamInfo<std::int64_t>& info) {
  return hwy::TargetName(info.param);
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, CpuOptions, ::testing::ValuesIn(cpu::tile_targets()), target_name);

// A dense option written out from a rule.
template <class Rule>
void set_mask(OptionCase& c, Rule rule) {
  const Problem& p = c.problem;
  c.options.mask_shape = {1, 1, p.query_len, p.kv_len};
  c.options.mask.clear();
  for (std::int64_t i = 0; i < p.query_len; ++i)
    for (std::int64_t j = 0; j < p.kv_len; ++j) c.options.mask.push_back(rule(i, j) ? 1 : 0);
}

TEST(CpuOptionLaws, CausalityAndWindowsAreMasks) {
  for (const char* text : {"hq2:q90:k140:d32:causal", "hq2:q140:k90:d32:causal", "q200:k600:d16:window=30,4",
                           "q64:k64:d8:causal=top_left:window=7,0"}) {
    SCOPED_TRACE(text);
    const OptionCase by_range{std::string(text)};
    Problem masked = by_range.problem;
    masked.causal = Causal::none;
    masked.window = {};
    masked.mask = true;
    OptionCase by_mask(masked);
    const Problem& p = by_range.problem;
    set_mask(by_mask, [&](std::int64_t i, std::int64_t j) {
      const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
      return keys.begin <= j && j < keys.end;
    });
    // A row's sum begins where its range does, so the last bits may differ.
    const Answer want = by_range.run(), got = by_mask.run();
    for (std::size_t at = 0; at < want.o.size(); ++at) ASSERT_NEAR(got.o[at], want.o[at], 4e-6);
    for (std::size_t row = 0; row < want.lse.size(); ++row) {
      ASSERT_EQ(std::isinf(got.lse[row]), std::isinf(want.lse[row])) << "row " << row;
      ASSERT_TRUE(std::isinf(want.lse[row]) || std::abs(got.lse[row] - want.lse[row]) <= 2e-6f)
          << "row " << row;
    }
  }
}

TEST(CpuOptionLaws, ABiasOfMinusInfinityIsAMask) {
  OptionCase masked{std::string("q60:k300:d32:mask:bias")}, biased{std::string("q60:k300:d32:bias")};
  masked.options.bias.assign(masked.options.bias.size(), 0.0f);
  for (std::size_t at = 0; at < biased.options.bias.size(); ++at)
    biased.options.bias[at] = masked.options.mask[at] != 0 ? 0.0f : -infinity;
  const Answer want = masked.run(), got = biased.run();
  EXPECT_TRUE(same_bits(got.o, want.o));
  EXPECT_TRUE(same_bits(got.lse, want.lse));
}

TEST(CpuOptionLaws, AConstantAddedToTheBiasChangesTheLseAlone) {
  OptionCase c{std::string("q40:k700:d32:bias:mask")};
  const Answer before = c.run();
  for (float& bias : c.options.bias) bias += 256.0f;
  const Answer after = c.run();
  for (std::size_t at = 0; at < before.o.size(); ++at) EXPECT_NEAR(after.o[at], before.o[at], 4e-4);
  for (std::size_t row = 0; row < before.lse.size(); ++row) {
    if (std::isinf(before.lse[row]))
      EXPECT_EQ(after.lse[row], before.lse[row]);
    else
      EXPECT_NEAR(after.lse[row], before.lse[row] + 256, 1e-3);
  }
}

TEST(CpuOptionLaws, KeysAndTheirOptionsMayBePermuted) {
  const OptionCase c{std::string("hq2:hk1:q30:k333:d16:mask:bias:softcap=3:sink")};
  const Problem& p = c.problem;
  std::vector<std::int64_t> order(static_cast<std::size_t>(p.kv_len));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  inputs::Random random(9);
  for (std::size_t j = order.size(); j > 1; --j)
    std::swap(order[j - 1], order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(j)))]);
  OptionCase moved = c;
  const auto permute = [&](auto& to, const auto& from, std::int64_t rows, std::int64_t width) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t j = 0; j < p.kv_len; ++j)
        for (std::int64_t w = 0; w < width; ++w)
          to[static_cast<std::size_t>((row * p.kv_len + j) * width + w)] = from[static_cast<std::size_t>(
              (row * p.kv_len + order[static_cast<std::size_t>(j)]) * width + w)];
  };
  permute(moved.in.k, c.in.k, 1, p.head_dim);
  permute(moved.in.v, c.in.v, 1, p.value_dim);
  permute(moved.options.mask, c.options.mask, p.query_len, 1);
  permute(moved.options.bias, c.options.bias, p.query_heads * p.query_len, 1);
  const Answer want = c.run(), got = moved.run();
  for (std::size_t at = 0; at < want.o.size(); ++at) EXPECT_NEAR(got.o[at], want.o[at], 1e-5);
  for (std::size_t row = 0; row < want.lse.size(); ++row) EXPECT_NEAR(got.lse[row], want.lse[row], 1e-5);
}

TEST(CpuOptionLaws, ABatchIsEachElementAlone) {
  OptionCase c{std::string("b3:hq2:q35:k520:d16:mask:bias:alibi:sink:dropout=0.25:batch_invariant")};
  const Answer whole = c.run();
  const Problem& p = c.problem;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    OptionCase one = c;
    one.problem.batch = 1;
    const auto part = [&](auto& values) {
      const auto size = static_cast<std::int64_t>(values.size()) / p.batch;
      values = {values.begin() + b * size, values.begin() + (b + 1) * size};
    };
    part(one.in.q);
    part(one.in.k);
    part(one.in.v);
    part(one.options.mask);
    one.options.mask_shape[0] = 1;
    if (b > 0) one.problem.dropout = 0;  // its mask counts batch elements
    Answer got = one.run(), want = whole;
    part(want.o);
    part(want.lse);
    EXPECT_TRUE(same_bits(got.lse, want.lse)) << "batch element " << b;
    EXPECT_TRUE(b > 0 || same_bits(got.o, want.o)) << "batch element " << b;
  }
}

TEST(CpuOptionLaws, ThreadsAndNeighboursChangeNoBit) {
  const OptionCase c{std::string("hq3:q200:k900:d32:causal:softcap=9:mask:bias:alibi:sink:dropout=0.4")};
  const Answer one = c.run({.kernel = "cpu_online", .threads = 1}),
               two = c.run({.kernel = "cpu_online", .threads = 2});
  EXPECT_TRUE(same_bits(one.o, two.o));
  EXPECT_TRUE(same_bits(one.lse, two.lse));
  // The last row alone, on the same diagonal.
  OptionCase last = c;
  const Problem& p = c.problem;
  last.problem.query_len = 1;
  last.problem.query_heads = last.problem.kv_heads = 1;
  last.problem.dropout = 0;  // counts rows
  last.in.q = {c.in.q.begin() + (p.query_len - 1) * p.head_dim, c.in.q.begin() + p.query_len * p.head_dim};
  last.in.k.resize(static_cast<std::size_t>(p.kv_len * p.head_dim));
  last.in.v.resize(static_cast<std::size_t>(p.kv_len * p.value_dim));
  const auto row = (p.query_len - 1) * p.kv_len;
  last.options.mask = {c.options.mask.begin() + row, c.options.mask.begin() + row + p.kv_len};
  last.options.bias = {c.options.bias.begin() + row, c.options.bias.begin() + row + p.kv_len};
  last.options.mask_shape[2] = last.options.bias_shape[2] = last.options.bias_shape[1] = 1;
  EXPECT_EQ(last.run({.kernel = "cpu_online", .num_splits = 1}).lse[0],
            c.run({.kernel = "cpu_online", .num_splits = 1}).lse[static_cast<std::size_t>(p.query_len - 1)]);
}

TEST(CpuOptionLaws, SizesOfOneAreBroadcastAndAnyStrideIsHonoured) {
  const OptionCase full{std::string("b2:hq3:hk1:q21:k150:d8:mask:bias:alibi:sink")};
  const Problem& p = full.problem;
  // What is broadcast: [batch][key] of the mask, [head][query] of the bias.
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(p.batch * p.kv_len));
  std::vector<float> bias(static_cast<std::size_t>(p.query_heads * p.query_len));
  inputs::Random random(4);
  for (auto& m : mask) m = random.below(3) != 0;
  for (auto& b : bias) b = random.normal();
  OptionCase dense = full;
  dense.options.mask_shape = dense.options.bias_shape = {p.batch, p.query_heads, p.query_len, p.kv_len};
  dense.options.mask.clear();
  dense.options.bias.clear();
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.query_heads; ++h)
      for (std::int64_t i = 0; i < p.query_len; ++i)
        for (std::int64_t j = 0; j < p.kv_len; ++j) {
          dense.options.mask.push_back(mask[static_cast<std::size_t>(b * p.kv_len + j)]);
          dense.options.bias.push_back(bias[static_cast<std::size_t>(h * p.query_len + i)]);
        }
  const Answer want = dense.run();
  dense.expect_gated(want);

  OptionCase narrow = full;
  narrow.options.mask = mask;
  narrow.options.mask_shape = {p.batch, 1, 1, p.kv_len};
  narrow.options.bias = bias;
  narrow.options.bias_shape = {1, p.query_heads, p.query_len, 1};
  EXPECT_TRUE(same_bits(narrow.run().o, want.o));

  // The mask backwards in memory, every third byte; the bias transposed and full; slopes and sink apart.
  std::vector<std::uint8_t> spread(static_cast<std::size_t>(3 * p.batch * p.kv_len), 7);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t j = 0; j < p.kv_len; ++j)
      spread[static_cast<std::size_t>(3 * (b * p.kv_len + p.kv_len - 1 - j))] =
          mask[static_cast<std::size_t>(b * p.kv_len + j)];
  std::vector<float> transposed(static_cast<std::size_t>(p.query_heads * p.query_len * p.kv_len));
  for (std::int64_t h = 0; h < p.query_heads; ++h)
    for (std::int64_t j = 0; j < p.kv_len; ++j)
      for (std::int64_t i = 0; i < p.query_len; ++i)
        transposed[static_cast<std::size_t>((h * p.kv_len + j) * p.query_len + i)] =
            bias[static_cast<std::size_t>(h * p.query_len + i)];
  std::vector<float> slopes(12, nan), sinks(12, nan);
  for (std::size_t h = 0; h < 3; ++h) {
    slopes[2 + 4 * h] = full.options.alibi_slopes[h];
    sinks[2 + 4 * h] = full.options.sink[h];
  }
  Answer got = want;
  std::fill(got.o.begin(), got.o.end(), nan);
  Tensors t = narrow.tensors(got);
  t.mask.data = spread.data() + 3 * (p.kv_len - 1);
  t.mask.strides = {3 * p.kv_len, 1000000007, 1000000007, -3};
  t.bias.data = transposed.data();
  t.bias.shape = {1, p.query_heads, p.query_len, p.kv_len};
  t.bias.strides = {1000000007, p.query_len * p.kv_len, 1, p.query_len};
  t.alibi_slopes.data = slopes.data() + 2;
  t.sink.data = sinks.data() + 2;
  t.alibi_slopes.strides[1] = t.sink.strides[1] = 4;
  const Result<Plan> planned = plan(p, cpu_with(2));
  ASSERT_TRUE(planned.ok());
  GuardedBytes workspace(planned.value().workspace_bytes);
  ASSERT_TRUE(run(planned.value(), t, {workspace.data(), workspace.bytes()}).ok());
  EXPECT_TRUE(same_bits(got.o, want.o));
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// O-036: no weight is subnormal, so none costs a trap. The calls take turns, and the quickest of each counts.
TEST(CpuOptionSpeed, KeysFarDownCostNoMoreThanOthers) {
  OptionCase near{std::string("q64:k4096:d64:bias:in=equal")}, far = near;
  near.options.bias.assign(near.options.bias.size(), 0.0f);
  far.options.bias = near.options.bias;
  for (std::size_t at = 0; at < far.options.bias.size(); ++at)
    if (at % 4096 >= 64) far.options.bias[at] = -1e30f;
  const PlanOptions one{.kernel = "cpu_online", .threads = 1, .num_splits = 1};
  const Result<Plan> planned = plan(near.problem, cpu_with(1), one);
  ASSERT_TRUE(planned.ok());
  GuardedBytes workspace(planned.value().workspace_bytes);
  double best[2] = {1e30, 1e30};
  for (int turn = 0; turn < 200 && (turn < 15 || best[1] > 1.5 * best[0]); ++turn)
    for (const bool is_far : {false, true}) {
      Answer answer = {std::vector<float>(64 * 64), std::vector<float>(64)};
      const Tensors t = (is_far ? far : near).tensors(answer);
      const double begin = thread_seconds();
      ASSERT_TRUE(run(planned.value(), t, {workspace.data(), workspace.bytes()}).ok());
      best[is_far] = std::min(best[is_far], thread_seconds() - begin);
      EXPECT_NEAR(answer.lse[9], std::log(is_far ? 64.0 : 4096.0), 1e-5);
    }
  EXPECT_LE(best[1], 1.5 * best[0]) << best[0] << " s with all biases 0, " << best[1]
                                    << " s with most at -1e30";
}

// What run says of option tensors that do not fit.
std::string error_of(const OptionCase& c, const std::function<void(Tensors&)>& change) {
  Answer answer;
  answer.o.resize(c.in.q.size() * 2);
  answer.lse.resize(c.in.q.size());
  Tensors t = c.tensors(answer);
  change(t);
  const Result<Plan> planned = plan(c.problem, cpu_with(1));
  if (!planned.ok()) return planned.status().message();
  std::vector<double> workspace(planned.value().workspace_bytes / 8 + 8);
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
  return run(planned.value(), t,
             {workspace.data() + (64 - address % 64) % 64 / 8, planned.value().workspace_bytes})
      .message();
}

TEST(CpuOptionTensors, WhatDoesNotFitIsRefusedInOneLine) {
  const OptionCase c{std::string("b2:hq4:q3:k5:d8:dv8:mask:bias:alibi:sink")};
  EXPECT_EQ(error_of(c, [](Tensors&) {}), "");
  EXPECT_EQ(error_of(c, [](Tensors& t) { t.mask = {}; }), "mask: is needed: the problem has the option");
  EXPECT_EQ(error_of(c, [](Tensors& t) { t.sink = {}; }), "sink: is needed: the problem has the option");
  EXPECT_EQ(error_of(c, [](Tensors& t) { t.mask.shape[3] = 4; }),
            "mask: shape must be (2, 4, 3, 5) or have 1 in its place for batch, heads, queries, keys, got "
            "(2, 1, 3, 4)");
  EXPECT_EQ(error_of(c, [](Tensors& t) { t.bias.shape[1] = 2; }),
            "bias: shape must be (2, 4, 3, 5) or have 1 in its place for batch, heads, queries, keys, got "
            "(1, 2, 3, 5)");
  EXPECT_EQ(error_of(c, [](Tensors& t) { t.alibi_slopes.shape[1] = 1; }),
            "alibi_slopes: shape must be (2, 4, 1, 1) or have 1 in its place for batch, got (1, 1, 1, 1)");
  EXPECT_EQ(error_of(c, [](Tensors& t) { t.sink.shape[0] = 2; }),
            "sink: shape must be (1, 4, 1, 1), got (2, 4, 1, 1)");
  EXPECT_EQ(error_of(c, [](Tensors& t) { t.mask.dtype = DType::f32; }), "mask: dtype must be bool, got f32");
  EXPECT_EQ(error_of(c, [](Tensors& t) { t.bias.dtype = DType::boolean; }),
            "bias: dtype must be f32, got bool");
  EXPECT_EQ(error_of(c, [](Tensors& t) { t.bias.device.kind = DeviceKind::cuda; }),
            "bias: is on another device than the plan");
  EXPECT_EQ(error_of(c, [](Tensors& t) { t.mask.data = nullptr; }), "mask: data is null");
  EXPECT_EQ(error_of(c, [](Tensors& t) { t.sink.data = static_cast<char*>(t.sink.data) + 2; }),
            "sink: data must be aligned to its element of 4 bytes");
  const OptionCase without{std::string("b2:hq4:q3:k5:d8:dv8")};
  EXPECT_EQ(error_of(without,
                     [&](Tensors& t) {
                       t.mask = packed_view(&t, DType::boolean, {1, 1, 1, 1}, Layout::bhsd);
                     }),
            "mask: was given, but the problem has no mask");
  EXPECT_EQ(error_of(without,
                     [&](Tensors& t) {
                       t.alibi_slopes = packed_view(&t, DType::f32, {1, 1, 1, 1}, Layout::bhsd);
                     }),
            "alibi_slopes: was given, but the problem has no alibi");
}

TEST(CpuOptionTensors, OneCallTakesTheOptionsOfTheTensorsItIsGiven) {
  const OptionCase c{std::string("b2:hq4:hk2:q30:k50:d8:mask:bias:alibi:sink")};
  const Answer want = c.run();
  Answer got = want;
  std::fill(got.o.begin(), got.o.end(), nan);
  const Status status = attention(c.tensors(got));
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same_bits(got.o, want.o));
}

}  // namespace
}  // namespace runmax::testing_cpu
