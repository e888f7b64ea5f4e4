// Laws of attention that need no reference: each relates two runs of the same kernel.
#include <cstring>

#include "inputs/random.hpp"
#include "kit/drawn.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

// Standard normal values; two rounded answers to one question differ by a few lesson tolerances at most.
constexpr double close = 2e-5;

// `got` at head (b, h) against `want` at head (b_want, h_want).
void expect_close(const Answer& got, std::int64_t b, std::int64_t h, const Answer& want, std::int64_t b_want,
                  std::int64_t h_want, const char* law) {
  for (std::int64_t i = 0; i < want.o.shape[2]; ++i) {
    for (std::int64_t c = 0; c < want.o.shape[3]; ++c)
      ASSERT_NEAR(got.o.at(b, h, i, c), want.o.at(b_want, h_want, i, c), close) << law << ", row " << i;
    const float lse = want.lse.at(b_want, h_want, i);
    if (std::isinf(lse)) {
      ASSERT_EQ(got.lse.at(b, h, i), lse) << law << ", row " << i;
    } else {
      ASSERT_NEAR(got.lse.at(b, h, i), lse, close) << law << ", row " << i;
    }
  }
}

// Head (b, h) of a tensor, copied.
HostTensor head_of(const HostTensor& tensor, std::int64_t b, std::int64_t h) {
  HostTensor head = packed_tensor({1, 1, tensor.shape[2], tensor.shape[3]});
  for (std::int64_t i = 0; i < tensor.shape[2]; ++i)
    for (std::int64_t c = 0; c < tensor.shape[3]; ++c) head.at(0, 0, i, c) = tensor.at(b, h, i, c);
  return head;
}

// Rows [first, last) of a one-head tensor, copied.
HostTensor rows_of(const HostTensor& tensor, std::int64_t first, std::int64_t last) {
  HostTensor part = packed_tensor({1, 1, last - first, tensor.shape[3]});
  for (std::int64_t i = first; i < last; ++i)
    for (std::int64_t c = 0; c < tensor.shape[3]; ++c) part.at(0, 0, i - first, c) = tensor.at(0, 0, i, c);
  return part;
}

// Shapes that the lesson's kernels take too, and hostile ones.
constexpr const char* one_head_shapes[] = {"q128:d64", "q37:k211:d40:dv24", "q65:k64:d96"};

TEST_P(Case, LawPermutedKeysChangeNothing) {
  for (const char* text : one_head_shapes) {
    const Problem p = problem(text);
    const Operands in = drawn(p);
    const auto want = run(p, in);
    if (!want) continue;
    std::vector<std::int64_t> order(static_cast<std::size_t>(p.kv_len));
    for (std::size_t j = 0; j < order.size(); ++j) order[j] = static_cast<std::int64_t>(j);
    inputs::Random random(3);
    for (std::size_t j = order.size(); j > 1; --j)
      std::swap(order[j - 1], order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(j)))]);
    Operands permuted = in;
    for (std::int64_t j = 0; j < p.kv_len; ++j) {
      const std::int64_t from = order[static_cast<std::size_t>(j)];
      for (std::int64_t c = 0; c < p.head_dim; ++c) permuted.k.at(0, 0, j, c) = in.k.at(0, 0, from, c);
      for (std::int64_t c = 0; c < p.value_dim; ++c) permuted.v.at(0, 0, j, c) = in.v.at(0, 0, from, c);
    }
    expect_close(*run(p, permuted), 0, 0, *want, 0, 0, "permuted keys");
  }
}

TEST_P(Case, LawSplitAnywhereAndMerge) {
  const Problem p = problem("q128:d64");
  const Operands in = drawn(p);
  const auto want = run(p, in);
  if (!want) return;
  for (const std::int64_t cut : {0, 1, 31, 32, 33, 64, 100, 127, 128}) {
    Problem left = p, right = p;
    left.kv_len = cut;
    right.kv_len = 128 - cut;
    const auto a = run(left, in.q, rows_of(in.k, 0, cut), rows_of(in.v, 0, cut));
    const auto b = run(right, in.q, rows_of(in.k, cut, 128), rows_of(in.v, cut, 128));
    if (!a || !b) continue;
    Answer merged = *a;
    HostTensor o_a = a->o, o_b = b->o, lse_a = a->lse, lse_b = b->lse;
    const auto view = [](HostTensor& tensor) { return tensor.view(tensor.storage.data(), {}); };
    ASSERT_TRUE(merge(view(o_a), view(lse_a), view(o_b), view(lse_b), view(merged.o), view(merged.lse)).ok());
    expect_close(merged, 0, 0, *want, 0, 0, "split and merge");
  }
}

TEST_P(Case, LawAConstantAddedToAllScoresMovesTheLseAlone) {
  // Q gets a channel of 1 and K one of `constant`, in place of channel 0.
  const Problem p = problem("q128:d64:scale=0.125");
  Operands in = drawn(p);
  for (std::int64_t i = 0; i < 128; ++i) {
    in.q.at(0, 0, i, 0) = 1;
    in.k.at(0, 0, i, 0) = 0;
  }
  const auto want = run(p, in);
  if (!want) return;
  for (const float constant_score : {-40.0f, 3.0f, 80.0f}) {
    for (std::int64_t j = 0; j < 128; ++j) in.k.at(0, 0, j, 0) = 8 * constant_score;
    const auto moved = run(p, in);
    for (std::int64_t i = 0; i < 128; ++i) {
      for (std::int64_t c = 0; c < 64; ++c)
        ASSERT_NEAR(moved->o.at(0, 0, i, c), want->o.at(0, 0, i, c), 1e-4) << constant_score;
      ASSERT_NEAR(moved->lse.at(0, 0, i) - constant_score, want->lse.at(0, 0, i), 1e-4) << constant_score;
    }
  }
}

TEST_P(Case, LawCausalIsEachRowOnItsOwnKeys) {
  const Problem p = problem("q70:k90:d32:causal");
  const Operands in = drawn(p);
  const auto whole = run(p, in);
  if (!whole) return;
  for (std::int64_t i = 0; i < 70; i += 3) {
    Problem one = problem("q1:k" + std::to_string(i + 21) + ":d32");
    const auto row = run(one, rows_of(in.q, i, i + 1), rows_of(in.k, 0, i + 21), rows_of(in.v, 0, i + 21));
    for (std::int64_t c = 0; c < 32; ++c)
      ASSERT_NEAR(whole->o.at(0, 0, i, c), row->o.at(0, 0, 0, c), close) << "row " << i;
    ASSERT_NEAR(whole->lse.at(0, 0, i), row->lse.at(0, 0, 0), close) << "row " << i;
  }
}

TEST_P(Case, LawAWindowThatExcludesNothingChangesNothing) {
  for (const char* text : {"q33:k70:d16", "q33:k70:d16:causal"}) {
    const Problem p = problem(text), windowed = problem(std::string(text) + ":window=100,100");
    const Operands in = drawn(p);
    const auto want = run(p, in), got = run(windowed, in);
    if (want && got) expect_close(*got, 0, 0, *want, 0, 0, "a wide window");
  }
}

TEST_P(Case, LawABatchIsEachElementAlone) {
  for (const char* text : {"b2:hq4:hk2:q64:d64", "b3:hq6:hk2:q33:k65:d24:dv40:causal"}) {
    const Problem p = problem(text);
    const Operands in = drawn(p);
    const auto whole = run(p, in);
    if (!whole) continue;
    Problem one = p;
    one.batch = one.query_heads = one.kv_heads = 1;
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t h = 0; h < p.query_heads; ++h) {
        const std::int64_t kv_head = h / (p.query_heads / p.kv_heads);
        const auto alone =
            run(one, head_of(in.q, b, h), head_of(in.k, b, kv_head), head_of(in.v, b, kv_head));
        if (alone) expect_close(*whole, b, h, *alone, 0, 0, text);
      }
  }
}

TEST_P(Case, LawOutputIsLinearInV) {
  // Powers of two are exact, so doubling V doubles every bit pattern of O.
  const Problem p = problem("q128:d64");
  Operands in = drawn(p);
  const auto want = run(p, in);
  if (!want) return;
  for (float& value : in.v.storage) value *= 4;
  const auto got = run(p, in);
  for (std::size_t at = 0; at < want->o.storage.size(); ++at)
    ASSERT_EQ(got->o.storage[at], 4 * want->o.storage[at]) << at;
  EXPECT_EQ(got->lse.storage, want->lse.storage);
}

TEST_P(Case, LawTheSameBitsFromRunToRun) {
  for (const char* text : {"b2:h3:q128:d64", "q5:k3000:d64", "b2:hq4:hk2:q77:k130:d40:causal"}) {
    const Problem p = problem(text);
    const Operands in = drawn(p);
    const auto first = run(p, in);
    if (!first) continue;
    for (int repeat = 0; repeat < 5; ++repeat) {
      const auto again = run(p, in);
      const auto same = [](const HostTensor& a, const HostTensor& b) {
        return std::memcmp(a.storage.data(), b.storage.data(), a.storage.size() * sizeof(float)) == 0;
      };
      ASSERT_TRUE(same(first->o, again->o) && same(first->lse, again->lse)) << text;
    }
  }
}

}  // namespace
}  // namespace runmax::kit
