// The inputs of the cases have power: what is trivial or known to be wrong fails on them, and where it does
// not, the judge says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "gate/gate.hpp"
#include "judge/cases/buffers.hpp"
#include "judge/cases/case.hpp"
#include "judge/timing/fresh.hpp"
#include "judge/timing/timing.hpp"

namespace runmax::judge {
namespace {

Manifest exercise() { return Manifest(); }

TEST(Power, EveryTrivialAnswerFailsOnMostInputs) {
  std::map<std::string, int> seen_by;
  int inputs_seen = 0;
  const Manifest manifest = exercise();
  for (const Case& one : cases_for(manifest)) {
    if (one.sequence != Sequence::placements || one.problem.query_len < 100) continue;
    Inputs inputs;
    one.draw(one.problem, 5, inputs);
    const Result<Truth> truth = truth_of(one.problem, inputs, 2);
    ASSERT_TRUE(truth.ok());
    const std::vector<std::string> blind = blind_spots(one.problem, inputs, truth.value(), one.bound, 32);
    ++inputs_seen;
    for (const char* name :
         {"output-zero", "mean-of-values", "best-key-value", "last-tile-dropped", "output-not-rescaled"})
      seen_by[name] += std::find(blind.begin(), blind.end(), name) == blind.end();
    EXPECT_EQ(std::count(blind.begin(), blind.end(), "output-zero"), 0) << one.name;
    if (one.name == "equal") {
      EXPECT_NE(std::find(blind.begin(), blind.end(), "mean-of-values"), blind.end());
    }
    if (one.name == "falling") {
      EXPECT_NE(std::find(blind.begin(), blind.end(), "output-not-rescaled"), blind.end());
    }
  }
  ASSERT_GT(inputs_seen, 20);
  for (const auto& [name, count] : seen_by)
    EXPECT_GT(2 * count, inputs_seen) << name << " is seen by " << count;
}

TEST(Buffers, LieWhereTheySayAndShowWhatIsWrittenBesideThem) {
  Manifest manifest;
  manifest.lse = true;
  manifest.workspace = "100";
  Problem p;
  p.query_len = p.kv_len = 7;
  const Result<Buffers> made =
      Buffers::make({{p, Placement::front}, {p, Placement::back}, {p, Placement::odd}}, manifest);
  ASSERT_TRUE(made.ok()) << made.status().message();
  const Buffers& buffers = made.value();
  const Arena& arena = buffers.outputs();
  for (std::size_t set = 0; set < 3; ++set) {
    buffers.poison(set, Poison::nan);
    EXPECT_EQ(buffers.written_outside(set), "");
    const std::size_t o = 3 * set;
    if (set == 0) {
      EXPECT_EQ(arena.base(o), 0);
    }
    if (set == 1) {
      EXPECT_EQ(arena.base(o) + arena.bytes(o), arena.region(o).bytes);
    }
    if (set == 2) {
      EXPECT_EQ(arena.base(o) / 4 % 2, 1);
    }
    EXPECT_EQ(buffers.out(set).size(), 7u * 64);
    EXPECT_EQ(buffers.lse(set).size(), 7u);
    char* const end = arena.data(o) + arena.bytes(o);
    if (set != 1) {
      *reinterpret_cast<float*>(end) = 0;
      EXPECT_EQ(buffers.written_outside(set), "it wrote 0 bytes behind the end of o");
      buffers.poison(set, Poison::nan);
    }
    if (set != 0) {
      *reinterpret_cast<float*>(arena.data(o) - 8) = 0;
      EXPECT_EQ(buffers.written_outside(set), "it wrote 8 bytes before the beginning of o");
    }
  }
}

// A timed output is checked whole: an element that is wrong is found wherever it is, in whichever variant.
TEST(FreshData, FindsOneWrongElementAnywhere) {
  Problem p;
  p.query_len = p.kv_len = 96;
  const FreshData fresh(p, 3, 2048, 2);
  inputs::Random random(9);
  Inputs inputs;
  inputs.q.resize(96 * 64), inputs.k.resize(96 * 64), inputs.v.resize(96 * 64);
  std::set<std::vector<float>> seen;
  for (int round = 0; round < 5; ++round) {
    const Variant variant = fresh.variant(random);
    fresh.write(variant, inputs.q.data(), inputs.k.data(), inputs.v.data());
    EXPECT_TRUE(seen.insert(inputs.q).second) << "the same data twice";
    const Result<Truth> truth = truth_of(p, inputs, 2);
    ASSERT_TRUE(truth.ok());
    std::vector<float> out = truth.value().naive;
    EXPECT_EQ(fresh.wrong(variant, out.data()), "");
    for (int trial = 0; trial < 50; ++trial) {
      const auto at = static_cast<std::size_t>(random.below(96 * 64));
      const float right = out[at];
      out[at] += 1e-3f * std::abs(variant.factor[0]);
      EXPECT_NE(
          fresh.wrong(variant, out.data())
              .find("query row " + std::to_string(at / 64) + ", head dimension " + std::to_string(at % 64)),
          std::string::npos);
      out[at] = right;
    }
  }
}

TEST(Crossover, IsWhereItStaysAhead) {
  TimingResult result;
  const auto with = [&](std::vector<double> ratios) {
    result.rows.clear();
    for (std::size_t i = 0; i < ratios.size(); ++i) {
      TimingRow row;
      row.n = std::int64_t{64} << i;
      row.naive_over_candidate = ratios[i];
      result.rows.push_back(row);
    }
    return result.crossover();
  };
  EXPECT_EQ(with({0.2, 0.5, 1.5, 2.0}), 256);
  EXPECT_EQ(with({1.5, 0.5, 0.9, 2.0}), 512);
  EXPECT_EQ(with({1.5, 1.2}), 64);
  EXPECT_EQ(with({1.5, 0.5}), std::nullopt);
  EXPECT_EQ(with({}), std::nullopt);
}

// What came back from a device is looked at with the bands around it.
TEST(DeviceArrays, ShowWhatAKernelWrote) {
  Manifest manifest;
  manifest.tier = Tier::device;
  Problem problem;
  problem.query_len = problem.kv_len = 3;
  problem.head_dim = problem.value_dim = 64;
  for (const Placement placement : {Placement::front, Placement::back, Placement::odd}) {
    const Result<Buffers> made = Buffers::make({{problem, placement}}, manifest);
    ASSERT_TRUE(made.ok());
    const Buffers& buffers = made.value();
    const auto back_from_device = [&] {
      buffers.poison(0, Poison::nan);
      for (std::size_t i = 0; i < 3; ++i)
        std::memcpy(buffers.outputs().data(3 + i), buffers.inputs().data(i), 3 * 64 * sizeof(float));
    };
    back_from_device();
    EXPECT_EQ(buffers.written_outside(0), "");
    EXPECT_EQ(buffers.written_inputs(0).name, "");

    buffers.outputs().floats(0)[3 * 64 + 4096] = 0;
    EXPECT_EQ(buffers.written_outside(0), "it wrote 16384 bytes behind the end of o");
    back_from_device();
    buffers.outputs().floats(0)[-1] = 0;
    EXPECT_EQ(buffers.written_outside(0), "it wrote 4 bytes before the beginning of o");
    back_from_device();
    buffers.outputs().floats(4)[64] = 1;
    EXPECT_EQ(buffers.written_inputs(0).name, "input-written");
    back_from_device();
    buffers.outputs().floats(5)[-2] = 1;
    EXPECT_EQ(buffers.written_inputs(0).name, "out-of-bounds");

    const Call call = buffers.call(0);
    EXPECT_EQ(call.blocks, 1);
    EXPECT_EQ(call.threads, 256);
  }
}

}  // namespace
}  // namespace runmax::judge
