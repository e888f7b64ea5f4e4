// A bench on a GPU believes nobody either; its graphs count every run once.
#include <gtest/gtest.h>

#include "bench/gpu/session.hpp"

namespace runmax::bench {
namespace {

struct Behaviour {
  float wrong_by = 0;     // added to one element of O
  double seconds = 1e-3;  // what it says that a run takes
  bool changes = false;   // its last output has other bits
  bool no_graph = false;
  int* timed = nullptr;  // counts calls of time
};

// Answers by the kernel it stands beside, on the CPU, and says what it is told about times.
class Suspect final : public GpuContender {
 public:
  Suspect(const Workload& workload, const Behaviour& behaviour)
      : workload_(workload), behaviour_(behaviour) {}
  const Identity& identity() const override { return identity_; }
  Result<Output> output() override {
    const Problem& p = workload_.problem;
    const auto host = [](const std::vector<float>& values, std::int64_t b, std::int64_t h, std::int64_t n,
                         std::int64_t d) {
      return check::packed_tensor({b, h, n, d}, values);
    };
    Output output;
    Result<check::Answer> answer =
        check::run_kernel(p, device_facts({DeviceKind::cpu, 0}).value(), {},
                          host(workload_.drawn.q, p.batch, p.query_heads, p.query_len, p.head_dim),
                          host(workload_.drawn.k, p.batch, p.kv_heads, p.kv_len, p.head_dim),
                          host(workload_.drawn.v, p.batch, p.kv_heads, p.kv_len, p.value_dim));
    if (!answer.ok()) return answer.status();
    output.attention = std::move(answer).value();
    output.attention.o.at(0, 1, 3, 5) += behaviour_.wrong_by;
    return output;
  }
  Result<bool> unchanged() override { return !behaviour_.changes; }
  Result<double> time(Way way, int) override {
    if (behaviour_.timed) ++*behaviour_.timed;
    if (way == Way::graph && behaviour_.no_graph) return Status(StatusCode::unsupported, "has no graphs");
    return behaviour_.seconds;
  }

 private:
  const Workload& workload_;
  Behaviour behaviour_;
  Identity identity_{"other", "other", "as told", 0};
};

class GpuBench : public testing::Test {
 protected:
  void SetUp() override {
    Result<DeviceFacts> facts = device_facts({DeviceKind::cuda, 0});
    if (!facts.ok()) GTEST_SKIP() << facts.status().message();
    facts_ = facts.value();
  }

  Report bench(const std::string& problem, const std::vector<Behaviour>& suspects, int graph_nodes = 0) {
    GpuSessionOptions options;
    options.facts = facts_;
    options.kernels = {""};
    options.rounds = 3;
    options.graph_nodes = graph_nodes;
    options.others = [&](const Workload& workload) -> Result<GpuOthers> {
      GpuOthers others;
      for (const Behaviour& behaviour : suspects)
        others.contenders.push_back(std::make_unique<Suspect>(workload, behaviour));
      return others;
    };
    Result<Report> report = run_gpu_session({parse_problem(problem).value()}, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? report.value() : Report();
  }

  DeviceFacts facts_;
};

TEST_F(GpuBench, AWrongAnswerIsNamedAndNeverTimed) {
  int timed = 0;
  const Report report = bench("hq2:q96:d64", {{.wrong_by = 1e-3f, .timed = &timed}});
  ASSERT_EQ(report.entries.size(), 2u);
  EXPECT_EQ(report.entries[0].outcome, Outcome::ok) << report.entries[0].reason;
  EXPECT_EQ(report.entries[1].outcome, Outcome::rejected);
  EXPECT_NE(report.entries[1].reason.find("o[0,1,3,5]"), std::string::npos) << report.entries[1].reason;
  EXPECT_FALSE(report.entries[1].timed());
  EXPECT_EQ(timed, 0);
  EXPECT_FALSE(report.passed());
}

TEST_F(GpuBench, TheSecondBarIsAmongTheGates) {
  const Report report = bench("hq2:q300:d64", {});
  bool second = false;
  for (const auto& [gate, fraction] : report.entries.at(0).gates)
    if (gate == "second bar") second = fraction > 0 && fraction < 1;
  EXPECT_TRUE(second);
}

TEST_F(GpuBench, MoreThanTheMachineCanDoFailsTheBench) {
  const Report report = bench("hq2:q96:d64", {{.seconds = 1e-10}});
  EXPECT_EQ(report.entries.at(1).outcome, Outcome::wrong);
  EXPECT_NE(report.entries.at(1).reason.find("limit was measured wrongly"), std::string::npos);
  EXPECT_FALSE(report.passed());
}

TEST_F(GpuBench, OtherBitsAfterTimingFailTheBench) {
  const Report report = bench("hq2:q96:d64", {{.changes = true}});
  EXPECT_EQ(report.entries.at(1).outcome, Outcome::rejected);
  EXPECT_FALSE(report.passed());
}

TEST_F(GpuBench, WhatCannotBeReplayedIsTimedByEventsAlone) {
  const Report report = bench("hq2:q96:d64", {{.no_graph = true}});
  const Entry& entry = report.entries.at(1);
  EXPECT_EQ(entry.outcome, Outcome::ok) << entry.reason;
  EXPECT_EQ(entry.warm.seconds.size(), 3u);
  EXPECT_TRUE(entry.graph.seconds.empty());
  EXPECT_NE(json(report).find("\"clock\": \"graph\""), std::string::npos);
}

// The slope must not depend on how many nodes it is taken over, and a node is no slower than a launch.
TEST_F(GpuBench, AGraphCountsEveryRunOnce) {
  const Report few = bench("q512:d64", {}, 20), many = bench("q512:d64", {}, 80);
  const double a = few.entries.at(0).graph.time().median, b = many.entries.at(0).graph.time().median;
  EXPECT_NEAR(a / b, 1, 0.15);
  EXPECT_LT(b, 1.1 * many.entries.at(0).warm.time().median);
  EXPECT_EQ(many.entries.at(0).graph.runs_per_sample, 80);
}

TEST_F(GpuBench, LimitsAreThoseOfAGpu) {
  const Report report = bench("q512:d64", {});
  EXPECT_GT(report.limits.fma_rate, 1e12);
  EXPECT_GT(report.limits.tensor_rate, report.limits.fma_rate);
  EXPECT_GT(report.limits.copy_rate.median, 1e11);
  EXPECT_GT(report.limits.read(0, measure::CacheState::warm)->median,
            report.limits.read(0, measure::CacheState::cold)->median)
      << "what fits in the L2 is read from there";
}

}  // namespace
}  // namespace runmax::bench
