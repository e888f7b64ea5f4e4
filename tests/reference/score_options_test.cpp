// The reference with options: against __float128 loops that share no code with it, and values worked out by
// hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "inputs/random.hpp"
#include "reference/quad.hpp"
#include "reference/reference.hpp"
#include "runmax/dropout.hpp"

namespace runmax {
namespace {

using reference::AllKeys;
using reference::Head;
using reference::Row;
using reference::ScoreOptions;
using testing_quad::Quad;

constexpr double infinity = std::numeric_limits<double>::infinity();

Quad magnitude(Quad x) { return x < 0 ? -x : x; }

Quad quad_tanh(Quad x) {
  const Quad e = testing_quad::exp(-2 * magnitude(x));
  const Quad t = (1 - e) / (1 + e);
  return x < 0 ? -t : t;
}

// A random small problem with a random subset of the options.
struct SmallProblem {
  std::int64_t query_len, kv_len, head_dim;
  double scale;
  std::vector<float> q, k, v, bias;
  std::vector<char> mask;
  bool with_mask, with_bias, with_dropout;
  PhiloxKey key;
  ScoreOptions options;

  explicit SmallProblem(std::uint64_t seed) {
    inputs::Random random(seed, 78);
    query_len = 1 + random.below(5);
    kv_len = random.below(40);
    head_dim = 1 + random.below(9);
    scale = random.below(3) == 0 ? -2.0 : 0.5;
    const float spread = random.below(4) == 0 ? 100.0f : 1.0f;
    const auto draw = [&](std::vector<float>& values, std::int64_t count, float factor) {
      for (std::int64_t c = 0; c < count; ++c) values.push_back(factor * random.normal());
    };
    draw(q, query_len * head_dim, spread);
    draw(k, kv_len * head_dim, spread);
    draw(v, kv_len, 3.0f);
    const float bias_spreads[] = {1.0f, 300.0f, 1e30f};
    draw(bias, query_len * kv_len, bias_spreads[random.below(3)]);
    for (float& b : bias)
      if (random.below(5) == 0) b = -std::numeric_limits<float>::infinity();
    const std::int64_t density = random.below(4);
    for (std::int64_t c = 0; c < query_len * kv_len; ++c) mask.push_back(random.below(4) < density);
    with_mask = random.below(2) == 0;
    with_bias = random.below(2) == 0;
    with_dropout = random.below(3) == 0;
    key = dropout_key(seed, 1, 0, 0);
    if (with_mask) options.mask = [this](std::int64_t i, std::int64_t j) { return mask[at(i, j)] != 0; };
    if (with_bias) options.bias = [this](std::int64_t i, std::int64_t j) { return bias[at(i, j)]; };
    if (with_dropout) {
      options.keeps = [this](std::int64_t i, std::int64_t j) {
        return dropout_keeps(key, dropout_threshold(0.25), i, j);
      };
      options.kept_factor = 1 / 0.75;
    }
    if (random.below(2) == 0) options.softcap = random.below(2) == 0 ? 0.5 : 30.0;
    if (random.below(2) == 0) {
      options.slope = static_cast<float>(0.3f);
      options.diagonal_offset = kv_len - query_len;
    }
    if (random.below(2) == 0) options.sink = {random.below(2) == 0 ? 1.5 : -2e4};
  }
  SmallProblem(const SmallProblem&) = delete;
  SmallProblem& operator=(const SmallProblem&) = delete;

  std::size_t at(std::int64_t i, std::int64_t j) const { return static_cast<std::size_t>(i * kv_len + j); }
  Head<float> head() const {
    return {{q.data(), head_dim, 1},
            {k.data(), head_dim, 1},
            {v.data(), 1, 1},
            query_len,
            kv_len,
            head_dim,
            1,
            scale};
  }
};

class AgainstQuadWithOptions : public ::testing::TestWithParam<int> {};

TEST_P(AgainstQuadWithOptions, AgreesTo1em13OfItsScale) {
  const SmallProblem p(static_cast<std::uint64_t>(GetParam()));
  for (std::int64_t i = 0; i < p.query_len; ++i) {
    Row<double> row;
    reference::reference_row(p.head(), i, AllKeys{p.kv_len}, row, p.options);
    std::vector<Quad> score, value;
    std::vector<std::int64_t> key;
    Quad largest_size = 0;
    for (std::int64_t j = 0; j < p.kv_len; ++j) {
      if (p.with_mask && !p.mask[p.at(i, j)]) continue;
      const float bias = p.with_bias ? p.bias[p.at(i, j)] : 0.0f;
      if (bias == -std::numeric_limits<float>::infinity()) continue;
      Quad dot = 0, size = 0;
      for (std::int64_t c = 0; c < p.head_dim; ++c) {
        const Quad product = static_cast<Quad>(p.q[static_cast<std::size_t>(i * p.head_dim + c)]) *
                             static_cast<Quad>(p.k[static_cast<std::size_t>(j * p.head_dim + c)]);
        dot += product;
        size += magnitude(product);
      }
      Quad s = static_cast<Quad>(p.scale) * dot;
      size *= magnitude(static_cast<Quad>(p.scale));
      if (p.options.softcap != 0)
        s = static_cast<Quad>(p.options.softcap) * quad_tanh(s / static_cast<Quad>(p.options.softcap));
      s += static_cast<Quad>(bias);
      const Quad alibi = static_cast<Quad>(p.options.slope) *
                         static_cast<Quad>(std::abs(static_cast<double>(i + p.options.diagonal_offset - j)));
      s -= alibi;
      size += magnitude(static_cast<Quad>(bias)) + alibi;
      score.push_back(s);
      value.push_back(static_cast<Quad>(p.v[static_cast<std::size_t>(j)]));
      key.push_back(j);
      if (size > largest_size) largest_size = size;
    }
    ASSERT_EQ(row.keys, static_cast<std::int64_t>(score.size()));
    std::vector<Quad> all = score;
    for (const double sink : p.options.sink) all.push_back(static_cast<Quad>(sink));
    if (all.empty()) {
      EXPECT_EQ(row.lse, -infinity);
      EXPECT_EQ(row.out[0], 0);
      continue;
    }
    Quad max = all[0], sum = 0, out = 0, size = 0;
    for (const Quad s : all) max = s > max ? s : max;
    for (const Quad s : all) sum += testing_quad::exp(s - max);
    for (std::size_t n = 0; n < score.size(); ++n) {
      const bool kept = !p.with_dropout || dropout_keeps(p.key, dropout_threshold(0.25), i, key[n]);
      const Quad all_kept =
          static_cast<Quad>(p.options.kept_factor) * testing_quad::exp(score[n] - max) * value[n] / sum;
      out += kept ? all_kept : 0;
      size += (kept ? magnitude(all_kept) : 0) + (p.with_dropout ? 0x1p-16 * magnitude(all_kept) : 0);
    }
    const double lse = static_cast<double>(max + testing_quad::log(sum));
    // tanh and the cap are rounded in double: a part of S.
    const double rounding = 0x1p-50 * (p.options.softcap != 0 ? static_cast<double>(largest_size) : 0.0);
    EXPECT_NEAR(row.lse, lse, 1e-14 * (1 + std::abs(lse)) + rounding) << "row " << i;
    const double bound = (1e-13 + 2 * rounding) * static_cast<double>(size);
    EXPECT_NEAR(row.out[0], static_cast<double>(out), bound) << "row " << i;
    EXPECT_NEAR(row.magnitude[0], static_cast<double>(size), bound);
    EXPECT_LE(row.score_magnitude, (1 + 1e-13) * static_cast<double>(largest_size) +
                                       (p.options.sink.empty() ? 0.0 : std::abs(p.options.sink[0])));
    for (const Quad s : score) {
      if (s <= max - 100) continue;
      EXPECT_GE(row.score_magnitude, (1 - 1e-13) * static_cast<double>(magnitude(s)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, AgainstQuadWithOptions, ::testing::Range(0, 240));

// q = 1 in one channel, scale 1: the keys are the scores. Query 0.
Row<double> row_of(const std::vector<float>& scores, const std::vector<float>& values,
                   const ScoreOptions& options) {
  const float q = 1.0f;
  const auto n = static_cast<std::int64_t>(scores.size());
  const Head<float> head{{&q, 1, 1}, {scores.data(), 1, 1}, {values.data(), 1, 1}, 1, n, 1, 1, 1.0};
  Row<double> row;
  reference::reference_row(head, 0, AllKeys{n}, row, options);
  return row;
}

ScoreOptions masked(std::vector<bool> mask) {
  ScoreOptions options;
  options.mask = [mask](std::int64_t, std::int64_t j) { return mask[static_cast<std::size_t>(j)]; };
  return options;
}

ScoreOptions biased(std::vector<double> bias) {
  ScoreOptions options;
  options.bias = [bias](std::int64_t, std::int64_t j) { return bias[static_cast<std::size_t>(j)]; };
  return options;
}

TEST(ReferenceOptions, AMaskedKeyIsNotReadWhateverItHolds) {
  const Row<double> row = row_of({0, NAN}, {7, NAN}, masked({true, false}));
  EXPECT_EQ(row.out[0], 7);
  EXPECT_EQ(row.lse, 0);
  EXPECT_EQ(row.keys, 1);
  EXPECT_EQ(row_of({0, NAN}, {7, INFINITY}, biased({0, -infinity})).out[0], 7);
}

TEST(ReferenceOptions, ARowWithoutAVisibleKeyIsZeroAndMinusInfinity) {
  const Row<double> row = row_of({0, 0}, {2, 6}, masked({false, false}));
  EXPECT_EQ(row.out[0], 0);
  EXPECT_EQ(row.lse, -infinity);
  EXPECT_EQ(row.score_magnitude, 0);
}

TEST(ReferenceOptions, AFiniteBiasIsNoMaskHoweverLow) {
  const double lowest = std::numeric_limits<float>::lowest();
  const Row<double> row = row_of({0, 0, 0}, {3, 6, 9}, biased({lowest, lowest, lowest}));
  EXPECT_DOUBLE_EQ(row.out[0], 6);
  EXPECT_DOUBLE_EQ(row.lse, lowest);
}

TEST(ReferenceOptions, AnInfiniteOrNaNBiasOfAVisibleKeyMakesTheRowNaN) {
  EXPECT_TRUE(std::isnan(row_of({0, 0}, {1, 2}, biased({0, infinity})).out[0]));
  EXPECT_TRUE(std::isnan(row_of({0, 0}, {1, 2}, biased({0, NAN})).lse));
}

TEST(ReferenceOptions, SoftcapComesBeforeBiasAndMask) {
  ScoreOptions options = masked({true, false});
  options.softcap = 1;
  const Row<double> row = row_of({0, 0}, {1, 100}, options);
  EXPECT_EQ(row.out[0], 1);
  EXPECT_EQ(row.lse, 0);
  options = biased({0, 3});
  options.softcap = 5;
  // 5 tanh(10 / 5) = 4.8201379; 5 tanh(0) + 3 = 3.
  const Row<double> capped = row_of({10, 0}, {1, 0}, options);
  EXPECT_NEAR(capped.lse, 4.820137900379085 + std::log1p(std::exp(3 - 4.820137900379085)), 1e-14);
}

TEST(ReferenceOptions, AlibiFallsWithTheDistanceFromTheDiagonal) {
  ScoreOptions options;
  options.slope = std::log(2.0);
  options.diagonal_offset = 1;
  // Distances of query 0 on the diagonal 1: 1, 0, 1. Weights 1/2, 1, 1/2.
  const Row<double> row = row_of({0, 0, 0}, {4, 8, 16}, options);
  EXPECT_DOUBLE_EQ(row.out[0], 9);
  EXPECT_NEAR(row.lse, std::log(2.0), 1e-15);
  EXPECT_DOUBLE_EQ(row.score_magnitude, std::log(2.0));
}

TEST(ReferenceOptions, ASinkJoinsTheSumAndHasNoValue) {
  ScoreOptions options;
  options.sink = {std::log(2.0)};
  const Row<double> row = row_of({0, 0}, {4, 8}, options);
  EXPECT_DOUBLE_EQ(row.out[0], 3);
  EXPECT_DOUBLE_EQ(row.lse, std::log(4.0));
  options = masked({false, false});
  options.sink = {-1.25};
  const Row<double> empty = row_of({0, 0}, {4, 8}, options);
  EXPECT_EQ(empty.out[0], 0);
  EXPECT_EQ(empty.lse, -1.25);
  options.sink = {-infinity};
  EXPECT_EQ(row_of({0, 0}, {4, 8}, options).lse, -infinity);
}

TEST(ReferenceOptions, DropoutLeavesTheLseAndScalesWhatItKeeps) {
  ScoreOptions options;
  options.keeps = [](std::int64_t, std::int64_t j) { return j != 1; };
  options.kept_factor = 2;
  const Row<double> row = row_of({0, 0}, {4, 8}, options);
  EXPECT_DOUBLE_EQ(row.out[0], 4);
  EXPECT_DOUBLE_EQ(row.magnitude[0], 4 + 0x1p-16 * 12);
  EXPECT_DOUBLE_EQ(row.lse, std::log(2.0));
}

// What options push out of sight widens no bound; a bias that stays in sight does.
TEST(ReferenceOptions, SHoldsTheSizesOfScoresThatHaveWeight) {
  EXPECT_EQ(row_of({1, 1}, {1, 2}, biased({5, -1e30})).score_magnitude, 6);
  EXPECT_EQ(row_of({1, 1}, {1, 2}, biased({5, -7})).score_magnitude, 8);
  EXPECT_EQ(row_of({1, -1e30f}, {1, 2}, {}).score_magnitude, static_cast<double>(1e30f));
  // Rounding 2^40 may lift the second key into sight.
  EXPECT_EQ(row_of({0, -0x1p40f}, {1, 2}, biased({0, 0x1p40 - 200})).score_magnitude, 0x1p41 - 200);
}

}  // namespace
}  // namespace runmax
