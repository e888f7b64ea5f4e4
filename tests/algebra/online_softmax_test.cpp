// The algebra of online_softmax.hpp: any tree over any split of the keys is the whole row.
#include "runmax/online_softmax.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "inputs/random.hpp"

namespace runmax {
namespace {

constexpr int value_dim = 3;
constexpr double infinity = std::numeric_limits<double>::infinity();
const StandardExp std_exp;

template <class Real>
using State = AttentionState<Real, value_dim>;

struct Key {
  double score;
  double value[value_dim];
};

// The definition in long double: maximum first, then the sums.
struct Whole {
  long double lse = -infinity;
  long double out[value_dim] = {};
  long double magnitude[value_dim] = {};
  long double spread = 0;  // largest |score - max| that has any weight

  explicit Whole(const std::vector<Key>& keys) {
    long double max = -infinity, sum = 0;
    for (const Key& key : keys) max = std::max(max, static_cast<long double>(key.score));
    if (max == -infinity) return;
    for (const Key& key : keys) {
      const long double weight = std::exp(key.score - max);
      sum += weight;
      for (int c = 0; c < value_dim; ++c) {
        out[c] += weight * key.value[c];
        magnitude[c] += weight * std::abs(static_cast<long double>(key.value[c]));
      }
    }
    for (int c = 0; c < value_dim; ++c) {
      out[c] /= sum;
      magnitude[c] /= sum;
    }
    lse = max + std::log(sum);
  }
};

template <class Real>
State<Real> fold(const std::vector<Key>& keys, std::size_t first, std::size_t last) {
  State<Real> state;
  for (std::size_t j = first; j < last; ++j) {
    Real value[value_dim];
    for (int c = 0; c < value_dim; ++c) value[c] = static_cast<Real>(keys[j].value[c]);
    state.add(static_cast<Real>(keys[j].score), value, std_exp);
  }
  return state;
}

// Splits [first, last) at random down to random leaves, in a random shape, and merges back up; either side
// may be empty.
template <class Real>
State<Real> random_tree(const std::vector<Key>& keys, std::size_t first, std::size_t last,
                        inputs::Random& random) {
  if (random.below(4) == 0 || last - first <= 1) return fold<Real>(keys, first, last);
  const std::size_t cut =
      first + static_cast<std::size_t>(random.below(static_cast<std::int64_t>(last - first + 1)));
  // A split that leaves all on one side would recurse for ever.
  State<Real> left = cut == last ? fold<Real>(keys, first, cut) : random_tree<Real>(keys, first, cut, random);
  State<Real> right = cut == first ? fold<Real>(keys, cut, last) : random_tree<Real>(keys, cut, last, random);
  if (random.below(2) == 0) {
    left.merge(right, std_exp);
    return left;
  }
  right.merge(left, std_exp);
  return right;
}

// Each key passes at most one rescale an add or merge, each of a few roundings; the weight of a key at
// distance x from the maximum moves by x * eps * exp(-x) < eps besides.
template <class Real>
void expect_whole(const State<Real>& state, const Whole& whole, std::size_t steps) {
  const double eps = static_cast<double>(std::numeric_limits<Real>::epsilon());
  const double tolerance = 4 * eps * static_cast<double>(steps + 4);
  const Real lse = softmax_lse(state.softmax);
  if (whole.lse == -infinity) {
    ASSERT_EQ(lse, -std::numeric_limits<Real>::infinity());
    for (int c = 0; c < value_dim; ++c) ASSERT_EQ(state.out[c] * softmax_normalizer(state.softmax), Real(0));
    return;
  }
  ASSERT_NEAR(static_cast<double>(lse), static_cast<double>(whole.lse),
              tolerance + eps * std::abs(static_cast<double>(whole.lse)));
  for (int c = 0; c < value_dim; ++c)
    ASSERT_NEAR(static_cast<double>(state.out[c] * softmax_normalizer(state.softmax)),
                static_cast<double>(whole.out[c]),
                tolerance * static_cast<double>(whole.magnitude[c]) + 1e-40);
}

// Scores of one of several sizes, some of them -inf; float numbers, so that both types see the same keys.
std::vector<Key> draw_keys(std::uint64_t seed, std::size_t count) {
  inputs::Random random(seed, 3);
  const float sizes[] = {1.0f, 10.0f, 100.0f, 1e4f, 1e-3f, 0.0f};
  const float size = sizes[random.below(6)];
  const bool with_holes = random.below(2) == 0;
  std::vector<Key> keys(count);
  for (Key& key : keys) {
    key.score = with_holes && random.below(3) == 0 ? -infinity : size * random.normal();
    for (double& value : key.value) value = random.normal();
  }
  return keys;
}

template <class Real>
class Algebra : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Algebra, Reals);

TYPED_TEST(Algebra, AnyTreeOverAnySplitIsTheWholeRow) {
  EXPECT_TRUE(rc::check("any tree over any split", [](std::uint64_t seed) {
    const auto count = static_cast<std::size_t>(inputs::Random(seed).below(70));
    const std::vector<Key> keys = draw_keys(seed, count);
    inputs::Random shape(seed, 9);
    expect_whole(random_tree<TypeParam>(keys, 0, count, shape), Whole(keys), 2 * count);
    RC_ASSERT(!::testing::Test::HasFailure());
  }));
}

TYPED_TEST(Algebra, AnyOrderOfTheKeysIsTheWholeRow) {
  EXPECT_TRUE(rc::check("any order of the keys", [](std::uint64_t seed) {
    std::vector<Key> keys = draw_keys(seed, 40);
    const Whole whole(keys);
    inputs::Random order(seed, 5);
    for (std::size_t j = keys.size(); j > 1; --j)
      std::swap(keys[j - 1], keys[static_cast<std::size_t>(order.below(static_cast<std::int64_t>(j)))]);
    expect_whole(fold<TypeParam>(keys, 0, keys.size()), whole, keys.size());
    RC_ASSERT(!::testing::Test::HasFailure());
  }));
}

TYPED_TEST(Algebra, AConstantAddedToEveryScoreMovesTheLseAlone) {
  const std::vector<Key> keys = draw_keys(2, 50);
  for (const double shift : {-1e4, -64.0, 1024.0, 65536.0}) {
    // Scores on a grid, so that the shifted ones are exact too.
    std::vector<Key> base = keys, moved = keys;
    for (std::size_t j = 0; j < keys.size(); ++j) {
      base[j].score = std::isinf(keys[j].score) ? keys[j].score : std::round(keys[j].score * 16) / 16;
      moved[j].score = base[j].score + shift;
    }
    const State<TypeParam> a = fold<TypeParam>(base, 0, base.size()),
                           b = fold<TypeParam>(moved, 0, moved.size());
    EXPECT_EQ(a.softmax.sum, b.softmax.sum) << shift;
    EXPECT_EQ(0, std::memcmp(a.out, b.out, sizeof a.out)) << shift;
    EXPECT_EQ(static_cast<double>(b.softmax.max) - static_cast<double>(a.softmax.max), shift);
  }
}

template <class Real>
void expect_same_bits(const State<Real>& a, const State<Real>& b) {
  EXPECT_EQ(a.softmax.max, b.softmax.max);
  EXPECT_EQ(a.softmax.sum, b.softmax.sum);
  EXPECT_EQ(0, std::memcmp(a.out, b.out, sizeof a.out));
}

TYPED_TEST(Algebra, TheNeutralStateIsNeutralToTheBit) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const State<TypeParam> state = fold<TypeParam>(draw_keys(seed, 9), 0, 9), neutral;
    State<TypeParam> left = neutral, right = state;
    left.merge(state, std_exp);
    right.merge(neutral, std_exp);
    if (state.softmax.sum == 0) continue;  // a state that saw nothing may differ from neutral in its output
    expect_same_bits(left, state);
    expect_same_bits(right, state);
  }
}

TYPED_TEST(Algebra, TheNeutralStateIsNeutralWithItself) {
  State<TypeParam> a;
  a.merge(State<TypeParam>(), std_exp);
  expect_same_bits(a, State<TypeParam>());
  EXPECT_EQ(softmax_normalizer(a.softmax), TypeParam(0));
}

TYPED_TEST(Algebra, AnEmptySideIsNotReadWhateverItsOutputHolds) {
  const State<TypeParam> state = fold<TypeParam>(draw_keys(1, 9), 0, 9);
  State<TypeParam> empty;
  for (TypeParam& value : empty.out) value = std::numeric_limits<TypeParam>::quiet_NaN();
  State<TypeParam> left = empty, right = state;
  left.merge(state, std_exp);
  right.merge(empty, std_exp);
  expect_same_bits(left, state);
  expect_same_bits(right, state);
}

TYPED_TEST(Algebra, MergingIsAssociativeWithinRounding) {
  EXPECT_TRUE(rc::check("(a b) c = a (b c)", [](std::uint64_t seed) {
    const std::vector<Key> keys = draw_keys(seed, 30);
    State<TypeParam> a = fold<TypeParam>(keys, 0, 10), b = fold<TypeParam>(keys, 10, 20),
                     c = fold<TypeParam>(keys, 20, 30), left = a, right = b;
    left.merge(b, std_exp);
    left.merge(c, std_exp);
    right.merge(c, std_exp);
    a.merge(right, std_exp);
    const Whole whole(keys);
    expect_whole(left, whole, 12);
    expect_whole(a, whole, 12);
    RC_ASSERT(!::testing::Test::HasFailure());
    RC_ASSERT(left.softmax.max == a.softmax.max);
  }));
}

TYPED_TEST(Algebra, MergingCommutesToTheBit) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<Key> keys = draw_keys(seed, 20);
    State<TypeParam> a = fold<TypeParam>(keys, 0, 7), b = fold<TypeParam>(keys, 7, 20), ba = b;
    ba.merge(a, std_exp);
    a.merge(b, std_exp);
    expect_same_bits(a, ba);
  }
}

TYPED_TEST(Algebra, ANaNScoreIsCarriedToTheEndByTheSum) {
  for (std::size_t bad : {0, 7, 19}) {
    std::vector<Key> keys = draw_keys(4, 20);
    keys[bad].score = std::numeric_limits<double>::quiet_NaN();
    for (std::uint64_t shape_seed = 0; shape_seed < 50; ++shape_seed) {
      inputs::Random shape(shape_seed);
      const State<TypeParam> state = random_tree<TypeParam>(keys, 0, keys.size(), shape);
      ASSERT_TRUE(std::isnan(state.softmax.sum)) << bad << " " << shape_seed;
      ASSERT_TRUE(std::isnan(softmax_lse(state.softmax)));
      for (const TypeParam value : state.out)
        ASSERT_TRUE(std::isnan(value * softmax_normalizer(state.softmax)));
    }
  }
}

TYPED_TEST(Algebra, ANaNValueStaysInItsChannel) {
  std::vector<Key> keys = draw_keys(4, 20);
  keys[11] = {0.5, {1, std::numeric_limits<double>::quiet_NaN(), 2}};
  for (std::uint64_t shape_seed = 0; shape_seed < 50; ++shape_seed) {
    inputs::Random shape(shape_seed);
    const State<TypeParam> state = random_tree<TypeParam>(keys, 0, keys.size(), shape);
    ASSERT_TRUE(std::isfinite(state.softmax.sum));
    ASSERT_TRUE(std::isfinite(state.out[0]));
    ASSERT_TRUE(std::isnan(state.out[1]));
    ASSERT_TRUE(std::isfinite(state.out[2]));
  }
}

TYPED_TEST(Algebra, APlusInfinityScoreIsNaNAsInTheDefinition) {
  std::vector<Key> keys = draw_keys(4, 20);
  keys[11].score = infinity;
  for (std::uint64_t shape_seed = 0; shape_seed < 50; ++shape_seed) {
    inputs::Random shape(shape_seed);
    const State<TypeParam> state = random_tree<TypeParam>(keys, 0, keys.size(), shape);
    ASSERT_TRUE(std::isnan(softmax_lse(state.softmax)));
    ASSERT_TRUE(std::isnan(state.out[0] * softmax_normalizer(state.softmax)));
  }
}

// docs/numerics.md proves it: the key that holds the maximum weighs exp(0) = 1, and rounding is monotone.
TYPED_TEST(Algebra, TheSumOfARowThatSawAKeyIsAtLeastOne) {
  EXPECT_TRUE(rc::check("sum >= 1", [](std::uint64_t seed) {
    const std::vector<Key> keys = draw_keys(seed, 60);
    inputs::Random shape(seed, 9);
    const State<TypeParam> state = random_tree<TypeParam>(keys, 0, keys.size(), shape);
    const bool saw_a_key = state.softmax.max > -std::numeric_limits<TypeParam>::infinity();
    const bool right = saw_a_key ? state.softmax.sum >= 1 : state.softmax.sum == 0;
    RC_ASSERT(right);
    RC_ASSERT(state.softmax.sum <= static_cast<TypeParam>(keys.size()) * TypeParam(1.0001));
  }));
}

TYPED_TEST(Algebra, LongChainsOfRisingScoresNeitherUnderflowNorOverflow) {
  // Each step rescales the whole history; the sum of the geometric series is 1 / (1 - exp(-step)).
  for (const double step : {0.5, 20.0, 200.0}) {
    State<TypeParam> state;
    const TypeParam value[value_dim] = {1, -1, 2};
    for (int j = 0; j < 200000; ++j) {
      state.add(static_cast<TypeParam>(step * j), value, std_exp);
      ASSERT_GE(state.softmax.sum, TypeParam(1)) << step << " " << j;
    }
    EXPECT_NEAR(static_cast<double>(state.softmax.sum), 1 / (1 - std::exp(-step)), 1e-5) << step;
    EXPECT_NEAR(static_cast<double>(state.out[2] * softmax_normalizer(state.softmax)), 2, 1e-5) << step;
  }
}

TYPED_TEST(Algebra, LongChainsOfFallingScoresKeepTheirSum) {
  for (const double step : {1.0 / 1024, 0.5, 200.0}) {
    State<TypeParam> state;
    const TypeParam value[value_dim] = {1, -1, 2};
    for (int j = 0; j < 100000; ++j) state.add(static_cast<TypeParam>(-step * j), value, std_exp);
    const double want = -std::expm1(-step * 100000) / -std::expm1(-step);
    EXPECT_NEAR(static_cast<double>(state.softmax.sum), want, 1e-3 * want) << step;
    EXPECT_NEAR(static_cast<double>(state.out[2] * softmax_normalizer(state.softmax)), 2, 1e-5) << step;
  }
}

TYPED_TEST(Algebra, ATileThatIsWhollyMinusInfinityChangesNothing) {
  State<TypeParam> state = fold<TypeParam>(draw_keys(1, 9), 0, 9);
  const State<TypeParam> before = state;
  const TypeParam value[value_dim] = {5, 6, 7};
  for (int j = 0; j < 32; ++j) state.add(-std::numeric_limits<TypeParam>::infinity(), value, std_exp);
  expect_same_bits(state, before);
  State<TypeParam> late;
  for (int j = 0; j < 32; ++j) late.add(-std::numeric_limits<TypeParam>::infinity(), value, std_exp);
  EXPECT_EQ(late.softmax.sum, TypeParam(0));
  const State<TypeParam> tail = fold<TypeParam>(draw_keys(1, 9), 0, 9);
  late.merge(tail, std_exp);
  expect_same_bits(late, tail);
}

// What softmax_raise promises to kernels that hold their output elsewhere.
TYPED_TEST(Algebra, TheFirstTilesRescaleIsZero) {
  SoftmaxState<TypeParam> state;
  EXPECT_EQ(softmax_raise(state, TypeParam(-7), std_exp), TypeParam(0));
  EXPECT_EQ(state.max, TypeParam(-7));
  state.sum = 1;
  EXPECT_EQ(softmax_raise(state, TypeParam(-9), std_exp), TypeParam(1));
  EXPECT_EQ(state.max, TypeParam(-7));
  EXPECT_NEAR(static_cast<double>(softmax_raise(state, TypeParam(-6), std_exp)), std::exp(-1.0), 1e-7);
  EXPECT_NEAR(static_cast<double>(state.sum), std::exp(-1.0), 1e-7);
}

}  // namespace
}  // namespace runmax
