// The gradient reference against finite differences of the forward reference, against __float128 loops that
// share no code with it, and against values worked out by hand.
#include "reference/gradient_reference.hpp"

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

using reference::Head;
using reference::Keys;
using reference::Matrix;
using testing_quad::Quad;

// A small head with everything random, in double, so that a difference quotient has digits to spare.
struct SmallHead {
  std::int64_t query_len, kv_len, head_dim, value_dim;
  Causal causal;
  Window window;
  double scale;
  std::vector<double> q, k, v, dout;

  SmallHead(std::uint64_t seed, double spread) {
    inputs::Random random(seed, 78);
    query_len = 1 + random.below(7);
    kv_len = 1 + random.below(20);
    head_dim = 1 + random.below(12);
    value_dim = 1 + random.below(7);
    causal = static_cast<Causal>(random.below(3));
    window = {random.below(3) == 0 ? random.below(12) : -1, random.below(3) == 0 ? random.below(12) : -1};
    const double scales[] = {1.0 / std::sqrt(static_cast<double>(head_dim)), 1.0, -0.5, 0.1};
    scale = scales[random.below(4)];
    const auto draw = [&](std::vector<double>& values, std::int64_t count, double size) {
      for (std::int64_t c = 0; c < count; ++c) values.push_back(size * static_cast<double>(random.normal()));
    };
    draw(q, query_len * head_dim, spread);
    draw(k, kv_len * head_dim, spread);
    draw(v, kv_len * value_dim, 1);
    draw(dout, query_len * value_dim, 1);
  }

  bool sees(std::int64_t i, std::int64_t j) const {
    const std::int64_t diagonal = i + (causal == Causal::top_left ? 0 : kv_len - query_len);
    return (causal == Causal::none || j <= diagonal) && (window.left < 0 || j >= diagonal - window.left) &&
           (window.right < 0 || j <= diagonal + window.right);
  }
  Keys keys(std::int64_t i) const {
    const KeyRange range = visible_keys(causal, window, query_len, kv_len, i);
    return {range.begin, range.end};
  }
  Head<double> head() const {
    return {{q.data(), head_dim, 1},
            {k.data(), head_dim, 1},
            {v.data(), value_dim, 1},
            query_len,
            kv_len,
            head_dim,
            value_dim,
            scale};
  }
  // What dO is the gradient of: sum of dO * O.
  double loss() const {
    double total = 0;
    for (std::int64_t i = 0; i < query_len; ++i) {
      reference::Row<double> row;
      reference::reference_row(
          head(), i, [&](std::int64_t at) { return keys(at); }, row);
      for (std::int64_t c = 0; c < value_dim; ++c)
        total += dout[static_cast<std::size_t>(i * value_dim + c)] * row.out[static_cast<std::size_t>(c)];
    }
    return total;
  }
};

struct AllGradients {
  std::vector<reference::RowGradient<double>> rows;
  reference::KeyGradients<double> keys;
};

AllGradients gradients_of(const SmallHead& h) {
  AllGradients all{{}, reference::KeyGradients<double>(h.kv_len, h.head_dim, h.value_dim)};
  reference::GradientReference<double> reference(h.head());
  for (std::int64_t i = 0; i < h.query_len; ++i) {
    all.rows.emplace_back();
    reference.row(h.head(), Matrix<double>{h.dout.data(), h.value_dim, 1}, i, h.keys(i), all.rows.back(),
                  &all.keys);
  }
  return all;
}

class GradientReference : public ::testing::TestWithParam<int> {};

TEST_P(GradientReference, IsTheSlopeOfTheForwardReference) {
  SmallHead h(static_cast<std::uint64_t>(GetParam()), 1.0);
  const AllGradients got = gradients_of(h);
  // Five points: the error is of the fourth order in the step.
  const auto slope = [&](double& x) {
    const double at = x, step = 1e-3;
    const auto loss = [&](double offset) {
      x = at + offset;
      const double value = h.loss();
      x = at;
      return value;
    };
    return (8 * (loss(step) - loss(-step)) - (loss(2 * step) - loss(-2 * step))) / (12 * step);
  };
  for (std::size_t e = 0; e < h.q.size(); ++e) {
    const auto width = static_cast<std::size_t>(h.head_dim);
    EXPECT_NEAR(got.rows[e / width].dq[e % width], slope(h.q[e]),
                2e-9 * (1 + got.rows[e / width].magnitude[e % width]))
        << "dq " << e;
  }
  for (std::size_t e = 0; e < h.k.size(); ++e)
    EXPECT_NEAR(got.keys.dk[e], slope(h.k[e]), 2e-9 * (1 + got.keys.dk_magnitude[e])) << "dk " << e;
  for (std::size_t e = 0; e < h.v.size(); ++e)
    EXPECT_NEAR(got.keys.dv[e], slope(h.v[e]), 2e-9 * (1 + got.keys.dv_magnitude[e])) << "dv " << e;
}

TEST_P(GradientReference, AgreesWithQuadTo1em12OfItsScale) {
  const double spreads[] = {1.0, 1e-3, 16.0, 60.0};
  const SmallHead h(static_cast<std::uint64_t>(GetParam()), spreads[GetParam() % 4]);
  const AllGradients got = gradients_of(h);
  const auto magnitude = [](Quad x) { return x < 0 ? -x : x; };
  const auto at = [](const std::vector<double>& data, std::int64_t row, std::int64_t dim, std::int64_t c) {
    return static_cast<Quad>(data[static_cast<std::size_t>(row * dim + c)]);
  };
  const Quad scale = static_cast<Quad>(h.scale);
  std::vector<Quad> dk(h.k.size()), dk_size(h.k.size()), dv(h.v.size()), dv_size(h.v.size());
  for (std::int64_t i = 0; i < h.query_len; ++i) {
    std::vector<Quad> p(static_cast<std::size_t>(h.kv_len));
    Quad max = 0, sum = 0, delta = 0, delta_size = 0;
    bool any = false;
    for (std::int64_t j = 0; j < h.kv_len; ++j) {
      if (!h.sees(i, j)) continue;
      Quad score = 0;
      for (std::int64_t c = 0; c < h.head_dim; ++c)
        score += at(h.q, i, h.head_dim, c) * at(h.k, j, h.head_dim, c);
      p[static_cast<std::size_t>(j)] = scale * score;
      if (!any || scale * score > max) max = scale * score;
      any = true;
    }
    for (std::int64_t j = 0; j < h.kv_len; ++j)
      if (h.sees(i, j)) {
        p[static_cast<std::size_t>(j)] = testing_quad::exp(p[static_cast<std::size_t>(j)] - max);
        sum += p[static_cast<std::size_t>(j)];
      }
    for (std::int64_t c = 0; c < h.value_dim; ++c) {
      Quad out = 0, out_size = 0;
      for (std::int64_t j = 0; j < h.kv_len; ++j)
        if (h.sees(i, j)) {
          out += p[static_cast<std::size_t>(j)] / sum * at(h.v, j, h.value_dim, c);
          out_size += p[static_cast<std::size_t>(j)] / sum * magnitude(at(h.v, j, h.value_dim, c));
        }
      delta += at(h.dout, i, h.value_dim, c) * out;
      delta_size += magnitude(at(h.dout, i, h.value_dim, c)) * out_size;
    }
    std::vector<Quad> dq(static_cast<std::size_t>(h.head_dim)), dq_size(static_cast<std::size_t>(h.head_dim));
    for (std::int64_t j = 0; j < h.kv_len; ++j) {
      if (!h.sees(i, j)) continue;
      Quad dp = 0, dp_size = 0;
      for (std::int64_t c = 0; c < h.value_dim; ++c) {
        const Quad term = at(h.dout, i, h.value_dim, c) * at(h.v, j, h.value_dim, c);
        dp += term;
        dp_size += magnitude(term);
      }
      const Quad weight = p[static_cast<std::size_t>(j)] / sum;
      const Quad least = weight < static_cast<Quad>(0x1p-108) ? static_cast<Quad>(0x1p-108) : weight;
      const Quad ds = scale * weight * (dp - delta);
      const Quad size = magnitude(scale) * least * (dp_size + delta_size);
      for (std::int64_t c = 0; c < h.head_dim; ++c) {
        dq[static_cast<std::size_t>(c)] += ds * at(h.k, j, h.head_dim, c);
        dq_size[static_cast<std::size_t>(c)] += size * magnitude(at(h.k, j, h.head_dim, c));
        dk[static_cast<std::size_t>(j * h.head_dim + c)] += ds * at(h.q, i, h.head_dim, c);
        dk_size[static_cast<std::size_t>(j * h.head_dim + c)] += size * magnitude(at(h.q, i, h.head_dim, c));
      }
      for (std::int64_t c = 0; c < h.value_dim; ++c) {
        dv[static_cast<std::size_t>(j * h.value_dim + c)] += weight * at(h.dout, i, h.value_dim, c);
        dv_size[static_cast<std::size_t>(j * h.value_dim + c)] +=
            least * magnitude(at(h.dout, i, h.value_dim, c));
      }
    }
    const reference::RowGradient<double>& row = got.rows[static_cast<std::size_t>(i)];
    // Scores of several thousand lose digits in double.
    const double part = 1e-13 + 1e-15 * row.score_magnitude;
    for (std::size_t c = 0; c < dq.size(); ++c) {
      EXPECT_NEAR(row.dq[c], static_cast<double>(dq[c]), part * row.magnitude[c]) << "row " << i;
      EXPECT_NEAR(row.magnitude[c], static_cast<double>(dq_size[c]), part * row.magnitude[c]) << "row " << i;
    }
  }
  for (std::size_t e = 0; e < dk.size(); ++e) {
    const double bound = 1e-13 * got.keys.dk_magnitude[e] + 1e-15 * got.keys.dk_score_magnitude[e];
    EXPECT_NEAR(got.keys.dk[e], static_cast<double>(dk[e]), bound) << "dk " << e;
    EXPECT_NEAR(got.keys.dk_magnitude[e], static_cast<double>(dk_size[e]), bound) << "dk " << e;
  }
  for (std::size_t e = 0; e < dv.size(); ++e) {
    const double bound = 1e-13 * got.keys.dv_magnitude[e] + 1e-15 * got.keys.dv_score_magnitude[e];
    EXPECT_NEAR(got.keys.dv[e], static_cast<double>(dv[e]), bound) << "dv " << e;
    EXPECT_NEAR(got.keys.dv_magnitude[e], static_cast<double>(dv_size[e]), bound) << "dv " << e;
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, GradientReference, ::testing::Range(0, 60));

// Two queries, two keys, one channel: worked out by hand.
struct Hand {
  std::vector<float> q{1, 1}, k{0, 0}, v{2, 6}, dout{1, 1};
  Head<float> head() const { return {{q.data(), 1, 1}, {k.data(), 1, 1}, {v.data(), 1, 1}, 2, 2, 1, 1, 1.0}; }
};

TEST(GradientReferenceByHand, OneRowOfTwoEqualKeys) {
  const Hand h;
  reference::GradientReference<double> reference(h.head());
  reference::KeyGradients<double> keys(2, 1, 1);
  reference::RowGradient<double> row;
  reference.row(h.head(), Matrix<float>{h.dout.data(), 1, 1}, 0, {0, 2}, row, &keys);
  EXPECT_EQ(row.dq[0], 0);
  EXPECT_EQ(keys.dk, (std::vector<double>{-1, 1}));
  EXPECT_EQ(keys.dv, (std::vector<double>{0.5, 0.5}));
  // E = {2, 6}, F = 4, times P = 1/2 and |k| = 0 or |q| = 1.
  EXPECT_EQ(row.magnitude[0], 0);
  EXPECT_EQ(keys.dk_magnitude, (std::vector<double>{3, 5}));
  EXPECT_EQ(keys.dv_magnitude, (std::vector<double>{0.5, 0.5}));
}

TEST(GradientReferenceByHand, ARowThatSeesNoKeyAddsNothing) {
  const Hand h;
  reference::GradientReference<double> reference(h.head());
  reference::KeyGradients<double> keys(2, 1, 1);
  reference::RowGradient<double> row;
  reference.row(h.head(), Matrix<float>{h.dout.data(), 1, 1}, 1, {2, 2}, row, &keys);
  EXPECT_EQ(row.dq[0], 0);
  EXPECT_EQ(keys.dk, (std::vector<double>{0, 0}));
  EXPECT_EQ(keys.dv_magnitude, (std::vector<double>{0, 0}));
  EXPECT_EQ(row.lse, -std::numeric_limits<double>::infinity());
}

TEST(GradientReferenceByHand, ScoresThatAreAllMinusInfinityAreLikeNoKey) {
  Hand h;
  h.k = {-INFINITY, -INFINITY};
  reference::GradientReference<double> reference(h.head());
  reference::KeyGradients<double> keys(2, 1, 1);
  reference::RowGradient<double> row;
  reference.row(h.head(), Matrix<float>{h.dout.data(), 1, 1}, 0, {0, 2}, row, &keys);
  EXPECT_EQ(row.dq[0], 0);
  EXPECT_EQ(keys.dk, (std::vector<double>{0, 0}));
  EXPECT_EQ(keys.dv, (std::vector<double>{0, 0}));
}

TEST(GradientReferenceByHand, ANaNInDoutShowsInItsRowAndInTheKeysThatItSees) {
  Hand h;
  h.dout = {1, NAN};
  reference::GradientReference<double> reference(h.head());
  reference::KeyGradients<double> keys(2, 1, 1);
  reference::RowGradient<double> row;
  reference.row(h.head(), Matrix<float>{h.dout.data(), 1, 1}, 0, {0, 2}, row, &keys);
  EXPECT_EQ(row.dq[0], 0);
  reference.row(h.head(), Matrix<float>{h.dout.data(), 1, 1}, 1, {0, 1}, row, &keys);
  EXPECT_TRUE(std::isnan(row.dq[0]));
  EXPECT_TRUE(std::isnan(keys.dv[0]));
  EXPECT_TRUE(std::isnan(keys.dk[0]));
  EXPECT_EQ(keys.dv[1], 0.5);
  EXPECT_EQ(keys.dk[1], 1);
}

}  // namespace
}  // namespace runmax
