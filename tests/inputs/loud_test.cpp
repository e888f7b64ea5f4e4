// What the lesson's data must be for its gate to have power.
#include "inputs/loud.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "gate/gate.hpp"
#include "reference/reference.hpp"

namespace runmax {
namespace {

using reference::AllKeys;
using reference::Head;
using reference::Row;

constexpr std::int64_t d = 64;

struct LoudHead {
  std::vector<float> q, k, v;
  std::int64_t n;

  LoudHead(std::uint64_t seed, std::int64_t length) : n(length) {
    for (std::vector<float>* values : {&q, &k, &v}) values->resize(static_cast<std::size_t>(n * d));
    inputs::draw_loud_head(seed, n, d, q.data(), k.data(), v.data());
  }
  Head<float> head() const {
    return {{q.data(), d, 1}, {k.data(), d, 1}, {v.data(), d, 1}, n, n, d, d, 0.125};
  }
  double score(std::int64_t i, std::int64_t j) const {
    double dot = 0;
    for (std::int64_t c = 0; c < d; ++c)
      dot += static_cast<double>(q[static_cast<std::size_t>(i * d + c)]) *
             static_cast<double>(k[static_cast<std::size_t>(j * d + c)]);
    return dot * 0.125;
  }
};

class LoudData : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(LoudData, TheLoudKeyIsEveryRowsMaximumWithATenthToNineTenthsOfItsWeight) {
  const std::int64_t n = GetParam();
  const std::vector<std::uint64_t> seeds =
      n > 4096 ? std::vector<std::uint64_t>{0} : std::vector<std::uint64_t>{0, 1, 18};
  for (const std::uint64_t seed : seeds) {
    const LoudHead loud(seed, n);
    const std::vector<std::int64_t> rows = reference::sampled_rows(n, n > 4096 ? 40 : 1000);
    reference::for_each_reference_row(
        loud.head(), rows, AllKeys{n}, 2, [&](std::int64_t i, const Row<double>& row) {
          const double top = loud.score(i, n - 3);
          const double weight = std::exp(top - row.lse);
          ASSERT_GT(weight, 0.1) << "seed " << seed << " row " << i;
          ASSERT_LT(weight, 0.9) << "seed " << seed << " row " << i;
          // No ordinary key comes near, and none vanishes.
          for (std::int64_t j = 0; j < n; j += 1 + n / 2000)
            if (j != n - 3) {
              const double score = loud.score(i, j);
              ASSERT_LT(score, top) << "row " << i << " key " << j;
              ASSERT_GT(std::exp(score - row.lse) * static_cast<double>(n), 0.01)
                  << "row " << i << " key " << j;
            }
        });
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, LoudData, ::testing::Values(256, 1024, 4096, 16384, 131072));

class DroppedTile : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(DroppedTile, FailsTheLessonGateWhicheverTileItIs) {
  const std::int64_t n = GetParam(), tile = 32;
  const LoudHead loud(0, n);
  struct Part {
    double sum = 0;
    std::vector<double> out = std::vector<double>(d, 0.0);
  };
  std::vector<gate::LessonGate> gates(static_cast<std::size_t>(n / tile), gate::LessonGate(n));
  reference::for_each_reference_row(
      loud.head(), reference::sampled_rows(n, 4), AllKeys{n}, 2, [&](std::int64_t i, const Row<double>& row) {
        // Sum and output of each tile by itself; without one of them, the row is what the others leave.
        std::vector<Part> parts(gates.size());
        Part whole;
        for (std::int64_t j = 0; j < n; ++j) {
          Part& part = parts[static_cast<std::size_t>(j / tile)];
          const double weight = std::exp(loud.score(i, j) - row.lse);
          part.sum += weight;
          whole.sum += weight;
          for (std::size_t c = 0; c < d; ++c) {
            const double term = weight * static_cast<double>(loud.v[static_cast<std::size_t>(j * d) + c]);
            part.out[c] += term;
            whole.out[c] += term;
          }
        }
        for (std::size_t t = 0; t < parts.size(); ++t) {
          std::vector<float> got;
          for (std::size_t c = 0; c < d; ++c)
            got.push_back(static_cast<float>((whole.out[c] - parts[t].out[c]) / (whole.sum - parts[t].sum)));
          gates[t].add_row(0, 0, i, row, got.data(), 1);
        }
      });
  for (std::size_t t = 0; t < gates.size(); ++t) {
    EXPECT_FALSE(gates[t].verdict().passed) << "tile " << t;
    EXPECT_GT(gates[t].verdict().gate_fraction, 2) << "tile " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, DroppedTile, ::testing::Values(256, 1024, 4096));

TEST(LoudData, LengthsBelowThreeAreLegal) {
  for (std::int64_t n : {0, 1, 2, 3}) {
    const LoudHead loud(3, n);
    for (float value : loud.k) EXPECT_TRUE(std::isfinite(value));
    EXPECT_EQ(inputs::loud_key(n), 0);
  }
  inputs::draw_loud_head(3, 4, 0, nullptr, nullptr, nullptr);
}

}  // namespace
}  // namespace runmax
