// The reference against __float128 loops that share no code with it, and against values worked out by hand.
#include "reference/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "inputs/random.hpp"
#include "reference/quad.hpp"
#include "runmax/problem.hpp"

namespace runmax {
namespace {

using reference::AllKeys;
using reference::Head;
using reference::Keys;
using reference::Row;
using testing_quad::Quad;

constexpr float infinity = std::numeric_limits<float>::infinity();

struct SmallProblem {
  std::int64_t query_len, kv_len, head_dim, value_dim;
  Causal causal;
  Window window;
  double scale;
  float q_spread, k_spread, v_spread;
  std::vector<float> q, k, v;

  explicit SmallProblem(std::uint64_t seed) {
    inputs::Random random(seed, 77);
    query_len = 1 + random.below(9);
    kv_len = random.below(40);
    head_dim = random.below(20);
    value_dim = 1 + random.below(7);
    causal = static_cast<Causal>(random.below(3));
    window = {random.below(3) == 0 ? random.below(12) : -1, random.below(3) == 0 ? random.below(12) : -1};
    const double scales[] = {
        1.0 / std::sqrt(static_cast<double>(head_dim + 1)), 1.0, -0.5, 1e-6, 30.0, 0.1, 0.0};
    scale = scales[random.below(7)];
    const float spreads[] = {1.0f, 1e-3f, 16.0f, 100.0f, 1e-20f, 1e12f};
    q_spread = spreads[random.below(4)];
    k_spread = spreads[random.below(4)];
    v_spread = spreads[random.below(6)];
    const auto draw = [&](std::vector<float>& values, std::int64_t count, float spread) {
      for (std::int64_t c = 0; c < count; ++c) values.push_back(spread * random.normal());
    };
    draw(q, query_len * head_dim, q_spread);
    draw(k, kv_len * head_dim, k_spread);
    draw(v, kv_len * value_dim, v_spread);
  }

  // The definition, key by key, written out again.
  bool sees(std::int64_t i, std::int64_t j) const {
    const std::int64_t diagonal = i + (causal == Causal::top_left ? 0 : kv_len - query_len);
    return (causal == Causal::none || j <= diagonal) && (window.left < 0 || j >= diagonal - window.left) &&
           (window.right < 0 || j <= diagonal + window.right);
  }

  Head<float> head() const {
    return {{q.data(), head_dim, 1},
            {k.data(), head_dim, 1},
            {v.data(), value_dim, 1},
            query_len,
            kv_len,
            head_dim,
            value_dim,
            scale};
  }
};

class AgainstQuad : public ::testing::TestWithParam<int> {};

TEST_P(AgainstQuad, AgreesTo1em13OfItsScale) {
  const SmallProblem p(static_cast<std::uint64_t>(GetParam()));
  std::int64_t next_row = 0;
  reference::for_each_reference_row(
      p.head(), reference::all_rows(p.query_len),
      [&](std::int64_t i) {
        const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
        return Keys{keys.begin, keys.end};
      },
      2,
      [&](std::int64_t i, const Row<double>& row) {
        ASSERT_EQ(i, next_row++);
        std::vector<Quad> score(static_cast<std::size_t>(p.kv_len));
        Quad max = 0, largest_size = 0, sum = 0;
        std::int64_t visible = 0;
        for (std::int64_t j = 0; j < p.kv_len; ++j) {
          if (!p.sees(i, j)) continue;
          Quad dot = 0, size = 0;
          for (std::int64_t c = 0; c < p.head_dim; ++c) {
            const Quad product = static_cast<Quad>(p.q[static_cast<std::size_t>(i * p.head_dim + c)]) *
                                 static_cast<Quad>(p.k[static_cast<std::size_t>(j * p.head_dim + c)]);
            dot += product;
            size += product < 0 ? -product : product;
          }
          score[static_cast<std::size_t>(j)] = static_cast<Quad>(p.scale) * dot;
          size *= static_cast<Quad>(std::abs(p.scale));
          if (size > largest_size) largest_size = size;
          if (visible++ == 0 || score[static_cast<std::size_t>(j)] > max)
            max = score[static_cast<std::size_t>(j)];
        }
        ASSERT_EQ(row.keys, visible);
        if (visible == 0) {
          EXPECT_EQ(row.lse, -std::numeric_limits<double>::infinity());
          EXPECT_EQ(row.score_magnitude, 0);
          for (const double out : row.out) EXPECT_EQ(out, 0);
          return;
        }
        for (std::int64_t j = 0; j < p.kv_len; ++j)
          if (p.sees(i, j)) sum += testing_quad::exp(score[static_cast<std::size_t>(j)] - max);
        const double lse = static_cast<double>(max + testing_quad::log(sum));
        EXPECT_NEAR(row.lse, lse, 1e-14 * (1 + std::abs(lse))) << "row " << i;
        EXPECT_NEAR(row.score_magnitude, static_cast<double>(largest_size),
                    1e-13 * static_cast<double>(largest_size));
        for (std::int64_t c = 0; c < p.value_dim; ++c) {
          Quad out = 0, magnitude = 0;
          for (std::int64_t j = 0; j < p.kv_len; ++j) {
            if (!p.sees(i, j)) continue;
            const Quad value = static_cast<Quad>(p.v[static_cast<std::size_t>(j * p.value_dim + c)]);
            const Quad term = testing_quad::exp(score[static_cast<std::size_t>(j)] - max) * value / sum;
            out += term;
            magnitude += term < 0 ? -term : term;
          }
          const double bound = 1e-13 * static_cast<double>(magnitude);
          EXPECT_NEAR(row.out[static_cast<std::size_t>(c)], static_cast<double>(out), bound)
              << "row " << i << " channel " << c << " S " << row.score_magnitude;
          EXPECT_NEAR(row.magnitude[static_cast<std::size_t>(c)], static_cast<double>(magnitude), bound);
        }
      });
  EXPECT_EQ(next_row, p.query_len);
}

INSTANTIATE_TEST_SUITE_P(Reference, AgainstQuad, ::testing::Range(0, 240));

// q = 1 in one channel, scale 1: the keys are the scores.
Row<double> row_of(const std::vector<float>& scores, const std::vector<float>& values, float q = 1.0f) {
  const auto n = static_cast<std::int64_t>(scores.size());
  const Head<float> head{{&q, 1, 1}, {scores.data(), 1, 1}, {values.data(), 1, 1}, 1, n, 1, 1, 1.0};
  Row<double> row;
  reference::reference_row(head, 0, row);
  return row;
}

TEST(ReferenceInfinities, NoVisibleKeyIsZeroAndMinusInfinity) {
  const Row<double> row = row_of({}, {});
  EXPECT_EQ(row.out[0], 0);
  EXPECT_EQ(row.lse, -infinity);
  EXPECT_EQ(row.keys, 0);
}

TEST(ReferenceInfinities, AScoreOfMinusInfinityHasNoWeight) {
  const Row<double> row = row_of({0, -infinity, 0}, {1, 100, 3});
  EXPECT_EQ(row.out[0], 2);
  EXPECT_DOUBLE_EQ(row.lse, std::log(2.0));
}

TEST(ReferenceInfinities, AllScoresMinusInfinityIsLikeNoVisibleKey) {
  const Row<double> row = row_of({-infinity, -infinity}, {1, 3});
  EXPECT_EQ(row.out[0], 0);
  EXPECT_EQ(row.lse, -infinity);
}

TEST(ReferenceInfinities, AScoreOfPlusInfinityMakesTheRowNaN) {
  const Row<double> row = row_of({0, infinity}, {1, 3});
  EXPECT_TRUE(std::isnan(row.out[0]));
  EXPECT_TRUE(std::isnan(row.lse));
}

TEST(ReferenceInfinities, AVisibleNaNInQOrKMakesTheRowNaN) {
  EXPECT_TRUE(std::isnan(row_of({0, NAN}, {1, 3}).out[0]));
  EXPECT_TRUE(std::isnan(row_of({0, NAN}, {1, 3}).lse));
  EXPECT_TRUE(std::isnan(row_of({0, 0}, {1, 3}, NAN).lse));
}

TEST(ReferenceInfinities, AnInfinityInVStaysWhereItHasWeight) {
  const Row<double> row = row_of({0, 0}, {1, -infinity});
  EXPECT_EQ(row.out[0], -infinity);
  EXPECT_DOUBLE_EQ(row.lse, std::log(2.0));
  // 0 * inf is NaN in the definition too.
  EXPECT_TRUE(std::isnan(row_of({0, -infinity}, {1, infinity}).out[0]));
}

TEST(ReferenceInfinities, WhatIsNotVisibleIsNotRead) {
  const std::vector<float> q{1, 1}, k{0, NAN}, v{7, NAN};
  const Head<float> head{{q.data(), 1, 1}, {k.data(), 1, 1}, {v.data(), 1, 1}, 2, 2, 1, 1, 1.0};
  Row<double> row;
  reference::reference_row(
      head, 0,
      [](std::int64_t i) {
        return Keys{0, i + 1};
      },
      row);
  EXPECT_EQ(row.out[0], 7);
  EXPECT_EQ(row.lse, 0);
}

TEST(ReferenceStrides, AnyStrideIsHonoured) {
  // K of (2, 2) transposed, V reversed.
  const std::vector<float> q{1, 0}, k{0, std::log(3.0f), 5, 7}, v{8, 4};
  const Head<float> head{{q.data(), 2, 1}, {k.data(), 1, 2}, {v.data() + 1, -1, 1}, 1, 2, 2, 1, 1.0};
  Row<double> row;
  reference::reference_row(head, 0, row);
  EXPECT_NEAR(row.out[0], 7, 1e-6);
  EXPECT_NEAR(row.lse, std::log(4.0), 1e-7);
}

TEST(ReferenceRows, ThreadsAndSamplingChangeNoBit) {
  const std::int64_t n = 1031, d = 24;
  std::vector<float> q, k, v;
  inputs::Random random(5);
  for (std::vector<float>* values : {&q, &k, &v})
    for (std::int64_t c = 0; c < n * d; ++c) values->push_back(random.normal());
  const Head<float> head{{q.data(), d, 1}, {k.data(), d, 1}, {v.data(), d, 1}, n, n, d, d, 0.2};
  std::vector<std::vector<double>> out(static_cast<std::size_t>(n));
  reference::for_each_reference_row(
      head, reference::all_rows(n), AllKeys{n}, 1,
      [&](std::int64_t i, const Row<double>& row) { out[static_cast<std::size_t>(i)] = row.out; });
  std::size_t seen = 0;
  reference::for_each_reference_row(head, reference::sampled_rows(n, 700), AllKeys{n}, 3,
                                    [&](std::int64_t i, const Row<double>& row) {
                                      ++seen;
                                      EXPECT_EQ(row.out, out[static_cast<std::size_t>(i)]) << "row " << i;
                                    });
  EXPECT_EQ(seen, 700u);
}

TEST(ReferenceRows, SamplesAreDistinctAscendingAndHoldBothEnds) {
  for (std::int64_t n : {1, 2, 63, 64, 65, 1000, 131072})
    for (std::int64_t count : {1, 2, 8, 64, 500}) {
      const std::vector<std::int64_t> rows = reference::sampled_rows(n, count);
      ASSERT_EQ(static_cast<std::int64_t>(rows.size()), std::min(n, count)) << n << " " << count;
      for (std::size_t r = 1; r < rows.size(); ++r) ASSERT_LT(rows[r - 1], rows[r]);
      EXPECT_EQ(rows.front(), 0);
      EXPECT_LT(rows.back(), n);
      EXPECT_TRUE(count == 1 || rows.back() == n - 1) << n << " " << count;
    }
}

}  // namespace
}  // namespace runmax
