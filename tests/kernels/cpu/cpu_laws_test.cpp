// Laws of attention that need no reference, on both CPU kernels.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {
namespace {

class CpuLaws : public ::testing::TestWithParam<const char*> {
 protected:
  Answer compute(const Problem& p, const inputs::HostInputs& in) const {
    return testing_cpu::compute(p, in, {.kernel = GetParam()});
  }
};

// Largest difference, as a share of the largest magnitude in `want`.
double distance(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0, size = 1e-30;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isinf(want[i]) && got[i] == want[i]) continue;
    if (!(std::abs(got[i] - want[i]) <= difference)) difference = std::abs(got[i] - want[i]);
    size = std::max(size, static_cast<double>(std::abs(want[i])));
  }
  return difference / size;
}

TEST_P(CpuLaws, PermutedKeysGiveTheSameAnswer) {
  const Problem p = problem_of("hq2:hk1:q37:k1100:d32:seed=5");
  inputs::HostInputs in = inputs::draw(p);
  const Answer before = compute(p, in);
  std::vector<std::int64_t> order(static_cast<std::size_t>(p.kv_len));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t j = 0; j < order.size(); ++j) std::swap(order[j], order[(j * 7919 + 13) % order.size()]);
  inputs::HostInputs permuted = in;
  for (std::size_t j = 0; j < order.size(); ++j) {
    std::copy_n(in.k.begin() + order[j] * 32, 32, permuted.k.begin() + static_cast<std::int64_t>(j) * 32);
    std::copy_n(in.v.begin() + order[j] * 32, 32, permuted.v.begin() + static_cast<std::int64_t>(j) * 32);
  }
  const Answer after = compute(p, permuted);
  EXPECT_LE(distance(after.o, before.o), 2e-6);
  EXPECT_LE(distance(after.lse, before.lse), 1e-6);
}

TEST_P(CpuLaws, SplittingTheKeysAnywhereAndMergingGivesTheWhole) {
  const Problem p = problem_of("hq3:hk3:q20:k777:d24:dv40:seed=6");
  const inputs::HostInputs in = inputs::draw(p);
  const Answer whole = compute(p, in);
  for (const std::int64_t at : {0, 1, 15, 16, 17, 300, 511, 512, 513, 776, 777}) {
    Answer part[2];
    for (int side = 0; side < 2; ++side) {
      const std::int64_t begin = side == 0 ? 0 : at, end = side == 0 ? at : p.kv_len;
      Problem half = p;
      half.kv_len = end - begin;
      part[side] = compute(half, {in.q, rows_of(in.k, 3, p.kv_len, 24, begin, end),
                                  rows_of(in.v, 3, p.kv_len, 40, begin, end)});
    }
    Answer merged{std::vector<float>(whole.o.size(), nan), std::vector<float>(whole.lse.size(), nan)};
    const auto o = [](std::vector<float>& data) {
      return packed_view(data.data(), DType::f32, {1, 3, 20, 40}, Layout::bhsd);
    };
    const auto lse = [](std::vector<float>& data) {
      return packed_view(data.data(), DType::f32, {1, 3, 20, 1}, Layout::bhsd);
    };
    ASSERT_TRUE(
        merge(o(part[0].o), lse(part[0].lse), o(part[1].o), lse(part[1].lse), o(merged.o), lse(merged.lse))
            .ok());
    EXPECT_LE(distance(merged.o, whole.o), 2e-6) << "split at key " << at;
    EXPECT_LE(distance(merged.lse, whole.lse), 1e-6) << "split at key " << at;
  }
}

TEST_P(CpuLaws, AConstantAddedToAllScoresMovesTheLseAlone) {
  // One more channel: 1 in Q, the constant in K.
  const Problem p = problem_of("q30:k600:d17:scale=1:seed=7");
  inputs::HostInputs in = inputs::draw(p);
  for (std::int64_t i = 0; i < p.query_len; ++i) in.q[static_cast<std::size_t>(i * 17)] = 1.0f;
  // Powers of two apart, so that adding the constant is exact.
  for (float& x : in.q) x = std::round(x * 8) / 8;
  for (float& x : in.k) x = std::round(x * 8) / 8;
  const auto with_constant = [&](float constant) {
    for (std::int64_t j = 0; j < p.kv_len; ++j) in.k[static_cast<std::size_t>(j * 17)] = constant;
    return compute(p, in);
  };
  const Answer zero = with_constant(0);
  for (const float constant : {1.0f, -64.0f, 4096.0f, -30000.0f}) {
    const Answer moved = with_constant(constant);
    EXPECT_TRUE(same_bits(moved.o, zero.o)) << "constant " << constant;
    for (std::size_t i = 0; i < zero.lse.size(); ++i)
      EXPECT_NEAR(moved.lse[i], zero.lse[i] + constant, 1e-5 + 1e-7 * std::abs(constant))
          << "constant " << constant;
  }
}

TEST_P(CpuLaws, ACausalRowIsThatRowOverItsKeysAlone) {
  for (const char* text :
       {"q70:k70:d16:causal:seed=8", "q20:k140:d16:causal:seed=8", "q70:k30:d16:causal:seed=8",
        "q70:k90:d16:causal=top_left:seed=8", "q90:k90:d16:window=9,4:seed=8"}) {
    const Problem p = problem_of(text);
    const inputs::HostInputs in = inputs::draw(p);
    const Answer all = compute(p, in);
    for (std::int64_t i = 0; i < p.query_len; ++i) {
      const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
      Problem one = p;
      one.causal = Causal::none;
      one.window = {};
      one.query_len = 1;
      one.kv_len = keys.end - keys.begin;
      const Answer alone = compute(one, {rows_of(in.q, 1, p.query_len, 16, i, i + 1),
                                         rows_of(in.k, 1, p.kv_len, 16, keys.begin, keys.end),
                                         rows_of(in.v, 1, p.kv_len, 16, keys.begin, keys.end)});
      const std::vector<float> row(all.o.begin() + i * 16, all.o.begin() + (i + 1) * 16);
      EXPECT_LE(distance(row, alone.o), 1e-6) << text << " row " << i;
      EXPECT_TRUE(all.lse[static_cast<std::size_t>(i)] == alone.lse[0] ||
                  std::abs(all.lse[static_cast<std::size_t>(i)] - alone.lse[0]) <= 1e-6)
          << text << " row " << i << ": " << all.lse[static_cast<std::size_t>(i)] << " " << alone.lse[0];
    }
  }
}

TEST_P(CpuLaws, ABatchIsEachOfItsElementsAloneToTheBit) {
  const Problem p = problem_of("b3:hq4:hk2:q50:k130:d24:dv20:causal:batch_invariant:seed=9");
  const inputs::HostInputs in = inputs::draw(p);
  const Answer together = compute(p, in);
  Problem one = p;
  one.batch = 1;
  for (std::int64_t b = 0; b < 3; ++b) {
    const auto part = [b](const std::vector<float>& data) {
      const auto size = static_cast<std::int64_t>(data.size()) / 3;
      return std::vector<float>(data.begin() + b * size, data.begin() + (b + 1) * size);
    };
    const Answer alone = compute(one, {part(in.q), part(in.k), part(in.v)});
    EXPECT_TRUE(same_bits(alone.o, part(together.o))) << "batch element " << b;
    EXPECT_TRUE(same_bits(alone.lse, part(together.lse))) << "batch element " << b;
  }
}

// A row's bits do not depend on the rows beside it: not on their number, not on the tile they share.
TEST_P(CpuLaws, ARowAloneHasTheBitsThatItHasAmongOthers) {
  for (const char* text :
       {"q131:k2300:d64:batch_invariant:seed=10", "q131:k700:d40:batch_invariant:seed=10"}) {
    const Problem p = problem_of(text);
    const inputs::HostInputs in = inputs::draw(p);
    const Answer all = compute(p, in);
    Problem one = p;
    one.query_len = 1;
    for (const std::int64_t i : {0, 1, 5, 6, 47, 48, 95, 96, 97, 130}) {
      const Answer alone = compute(one, {rows_of(in.q, 1, p.query_len, p.head_dim, i, i + 1), in.k, in.v});
      EXPECT_TRUE(same_bits(alone.o, rows_of(all.o, 1, p.query_len, p.value_dim, i, i + 1)))
          << text << " row " << i;
    }
  }
}

TEST_P(CpuLaws, AGroupOfQueryHeadsReadsOneKvHead) {
  const Problem grouped = problem_of("hq6:hk2:q40:k90:d16:seed=11");
  const inputs::HostInputs in = inputs::draw(grouped);
  Problem repeated = grouped;
  repeated.kv_heads = 6;
  inputs::HostInputs copies{in.q, {}, {}};
  for (std::int64_t h = 0; h < 6; ++h) {
    copies.k.insert(copies.k.end(), in.k.begin() + h / 3 * 90 * 16, in.k.begin() + (h / 3 + 1) * 90 * 16);
    copies.v.insert(copies.v.end(), in.v.begin() + h / 3 * 90 * 16, in.v.begin() + (h / 3 + 1) * 90 * 16);
  }
  const Answer a = compute(grouped, in), b = compute(repeated, copies);
  EXPECT_TRUE(same_bits(a.o, b.o));
  EXPECT_TRUE(same_bits(a.lse, b.lse));
}

TEST_P(CpuLaws, ScoresRisingPastEveryTileLoseNothingOfEarlierTiles) {
  // The maximum moves in each tile; the reference says what remains of the first.
  const Problem p = problem_of("q12:k5000:d64:in=rising:seed=12");
  const inputs::HostInputs in = inputs::draw(p);
  expect_gated(p, in, compute(p, in), GetParam());
}

std::string kernel_name(const ::testing::TestParamInfo<const char*>& test) { return test.param; }
INSTANTIATE_TEST_SUITE_P(Kernels, CpuLaws, ::testing::Values("cpu_online", "cpu_naive"), kernel_name);

}  // namespace
}  // namespace runmax::testing_cpu
