// A bench believes nobody: not an answer, not a time, not a limit.
#include "bench/session.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>
#include <thread>

#include "bench/engine.hpp"
#include "bench/rounds.hpp"
#include "measure/read_loop.hpp"

namespace runmax::bench {
namespace {

using measure::CacheState;

DeviceFacts cpu() { return device_facts({DeviceKind::cpu, 0}).value(); }

struct Behaviour {
  float wrong_by = 0;    // added to one element of O
  double seconds = 0;    // what it says that a run takes; 0: the truth
  bool changes = false;  // its last output has other bits
  std::string name = "other";
  int* timed = nullptr;  // counts calls of time
};

// The engine with something wrong about it.
class Suspect final : public Contender {
 public:
  Suspect(std::unique_ptr<Contender> engine, const Behaviour& behaviour)
      : engine_(std::move(engine)), behaviour_(behaviour), identity_(engine_->identity()) {
    identity_.implementation = behaviour.name;
  }
  const Identity& identity() const override { return identity_; }
  Result<Output> output() override {
    Result<Output> output = engine_->output();
    if (!output.ok()) return output;
    if (!output.value().gradients.dk.storage.empty())
      output.value().gradients.dk.storage[77] += behaviour_.wrong_by;
    else if (output.value().dk.empty())
      output.value().attention.o.at(0, 1, 3, 5) += behaviour_.wrong_by;
    else
      output.value().dk[777] += behaviour_.wrong_by;
    return output;
  }
  Result<bool> unchanged() override { return !behaviour_.changes; }
  Result<double> time(int runs) override {
    if (behaviour_.timed) ++*behaviour_.timed;
    if (behaviour_.seconds > 0) return behaviour_.seconds * runs;
    return engine_->time(runs);
  }
  void flush() override { engine_->flush(); }

 private:
  std::unique_ptr<Contender> engine_;
  Behaviour behaviour_;
  Identity identity_;
};

Report bench_of(const std::string& problem, const std::vector<Behaviour>& suspects,
                Pass pass = Pass::forward) {
  static measure::MemoryLedger ledger;
  SessionOptions options;
  options.facts = cpu();
  options.kernels = {""};
  options.pass = pass;
  options.threads = {1};
  options.rounds = 3;
  options.copy_bytes = 1 << 20;
  options.others = [&](const Workload& workload) -> Result<Others> {
    Others others;
    for (const Behaviour& behaviour : suspects)
      others.contenders.push_back(std::make_unique<Suspect>(
          make_engine(workload, options.facts, {.kernel = "", .threads = 1}, ledger).value(), behaviour));
    return others;
  };
  Result<Report> report = run_session({parse_problem(problem).value()}, options);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? report.value() : Report();
}

TEST(BenchSession, AWrongAnswerIsNamedAndNeverTimed) {
  int timed = 0;
  const Report report = bench_of("hq2:q96:d64", {{.wrong_by = 1e-3f, .timed = &timed}});
  ASSERT_EQ(report.entries.size(), 2u);
  EXPECT_EQ(report.entries[0].outcome, Outcome::ok);
  EXPECT_EQ(report.entries[1].outcome, Outcome::rejected);
  EXPECT_NE(report.entries[1].reason.find("o[0,1,3,5]"), std::string::npos) << report.entries[1].reason;
  EXPECT_FALSE(report.entries[1].timed());
  EXPECT_EQ(timed, 0);
  EXPECT_FALSE(report.passed());
  EXPECT_NE(text(report).find("FAILED"), std::string::npos);
}

TEST(BenchSession, AnAnswerOfNaNIsNeverTimed) {
  int timed = 0;
  const Report report =
      bench_of("hq2:q96:d64", {{.wrong_by = std::numeric_limits<float>::quiet_NaN(), .timed = &timed}});
  EXPECT_EQ(report.entries[1].outcome, Outcome::rejected);
  EXPECT_EQ(timed, 0);
}

TEST(BenchSession, AWrongGradientIsNamedAndNeverTimed) {
  int timed = 0;
  const Report report = bench_of("hq4:hk2:q96:k70:d64:causal",
                                 {{.wrong_by = 1e-3f, .timed = &timed}, {.wrong_by = 0}}, Pass::backward);
  ASSERT_EQ(report.entries.size(), 3u);
  EXPECT_EQ(report.entries[0].outcome, Outcome::ok) << report.entries[0].reason;
  EXPECT_GT(report.entries[0].gate_fraction, 0);
  EXPECT_LT(report.entries[0].gate_fraction, 1);
  EXPECT_EQ(report.entries[1].outcome, Outcome::rejected);
  // Element 777 is channel 9 of key 12.
  EXPECT_NE(report.entries[1].reason.find("dk[0,0,12,9]"), std::string::npos) << report.entries[1].reason;
  EXPECT_EQ(timed, 0);
  EXPECT_EQ(report.entries[2].outcome, Outcome::ok) << report.entries[2].reason;
  // Five products over the visible pairs: 2 * 4 heads * pairs * (3 * 64 + 2 * 64).
  EXPECT_EQ(report.flops(0), 2.0 * visible_pairs(report.problems[0]) * 320);
  // Q, O, dO and dQ of 4 * 96 rows, K, V, dK and dV of 2 * 70, LSE.
  EXPECT_EQ(report.bytes(0), 4.0 * 64 * 4 * (4 * 96 + 2 * 70) + 4 * 4 * 96);
}

TEST(BenchSession, EveryTypeOptionAndFormIsGatedAndTimedBothWays) {
  for (const char* text :
       {"hq2:q40:k50:d16:f16", "hq2:q40:k50:d16:bf16:causal", "hq2:q40:k50:d16:mask:bias:alibi:sink",
        "hq2:q40:k50:d16:dropout=0.2:softcap=5", "hq2:varlen=20/30,9/50:d16", "b2:hq2:q9:k60:d16:seqused",
        "b2:hq2:q9:k60:d16:paged=7:seqused:bf16:sink"})
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      int timed = 0;
      const Report report = bench_of(text, {{.wrong_by = 1, .timed = &timed}}, pass);
      ASSERT_EQ(report.entries.size(), 2u) << text;
      EXPECT_EQ(report.entries[0].outcome, Outcome::ok) << text << ": " << report.entries[0].reason;
      EXPECT_FALSE(report.entries[0].warm.seconds.empty()) << text;
      EXPECT_EQ(report.entries[1].outcome, Outcome::rejected) << text;
      EXPECT_EQ(timed, 0) << text;
    }
  const Report wide = bench_of("hq2:q40:k50:d16:f64:bias", {}, Pass::backward);
  EXPECT_EQ(wide.entries[0].outcome, Outcome::ok) << wide.entries[0].reason;
  EXPECT_EQ(wide.entries[0].identity.kernel, "cpu_double_backward");
}

// Work is counted on what was drawn: a share of a limit must not come from keys that nobody sees.
TEST(BenchSession, FlopsAreThoseOfVisiblePairs) {
  const auto flops_of = [](const std::string& text) { return bench_of(text, {}).flops(0); };
  EXPECT_EQ(flops_of("hq2:varlen=20/30,9/50:d16"), 2.0 * 2 * (20 * 30 + 9 * 50) * 32);
  const Problem p = parse_problem("b3:hq2:q9:k60:d16:seqused").value();
  double keys = 0;
  for (const SequenceLengths& lengths : inputs::draw(p).lengths) keys += static_cast<double>(lengths.kv_len);
  EXPECT_EQ(flops_of("b3:hq2:q9:k60:d16:seqused"), 2.0 * 2 * 9 * keys * 32);
  const Problem masked = parse_problem("hq2:q40:k50:d16:mask").value();
  double visible = 0;
  for (const auto flag : inputs::draw(masked).options.mask) visible += flag != 0 ? 1 : 0;
  EXPECT_NEAR(flops_of("hq2:q40:k50:d16:mask"), 2.0 * 2 * visible * 32, 1e-6);
}

TEST(BenchSession, MoreThanTheMachineCanDoFailsTheBench) {
  const Report report = bench_of("hq2:q96:d64", {{.seconds = 1e-7}});
  EXPECT_EQ(report.entries[1].outcome, Outcome::wrong);
  EXPECT_GT(report.entries[1].warm.share(), 1);
  EXPECT_NE(report.entries[1].reason.find("limit was measured wrongly"), std::string::npos);
  EXPECT_FALSE(report.passed());
}

TEST(BenchSession, OtherBitsAfterTimingFailTheBench) {
  const Report report = bench_of("hq2:q96:d64", {{.changes = true}});
  EXPECT_EQ(report.entries[1].outcome, Outcome::rejected);
  EXPECT_NE(report.entries[1].reason.find("other bits"), std::string::npos);
  EXPECT_FALSE(report.passed());
}

TEST(BenchSession, WhatTakesTwiceTheTimeHasTheRatioOfTwo) {
  const Report report =
      bench_of("hq2:q96:d64", {{.seconds = 1e-3, .name = "a"}, {.seconds = 2e-3, .name = "b"}});
  const auto ratio = paired_ratio(report.entries[2].warm, report.entries[1].warm);
  ASSERT_TRUE(ratio);
  EXPECT_DOUBLE_EQ(ratio->median, 2);
  EXPECT_EQ(ratio->samples, 3);
  // 2 heads * 96 queries * 96 keys * 2 * 128 in 2 ms.
  EXPECT_NE(text(report).find("2.000 ms ±0.0 "), std::string::npos) << text(report);
  EXPECT_NE(text(report).find("  2.4  "), std::string::npos) << text(report);
}

TEST(BenchSession, NoTextIsWiderThanEightyColumns) {
  const Report report =
      bench_of("hq2:q96:d64", {{.wrong_by = 1}, {.seconds = 3.21e-3, .name = "torch efficient"}});
  std::istringstream lines(text(report));
  for (std::string line; std::getline(lines, line);) {
    // Bytes that continue a character take no column.
    const auto width = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
    EXPECT_LE(width, 80) << line;
  }
}

TEST(BenchSession, AProblemThatOnlyReadsIsToldInBytes) {
  Report report = bench_of("hq2:q96:d64", {});
  EXPECT_NE(text(report).find("GFLOP/s "), std::string::npos);
  EXPECT_EQ(text(report).find(" GB/s  share"), std::string::npos);
  for (Entry& entry : report.entries)
    for (const Way way : {Way::warm, Way::cold}) {
      Timing& timing = entry.timing(way);
      for (double& seconds : timing.read_seconds) seconds = 1e-3;
      for (double& seconds : timing.seconds) seconds = 2e-3;
    }
  // Q, K, V and O of 2 heads of 96 rows of 64 floats, and their LSE, in 2 ms.
  EXPECT_NE(text(report).find(" GB/s"), std::string::npos) << text(report);
  EXPECT_NE(text(report).find("  0.10  0.500 read"), std::string::npos) << text(report);
}

TEST(BenchRounds, EndByNumberOrByTimeButNotBeforeThree) {
  const Rounds asked(4, 1.0), automatic(0, 10.0);
  EXPECT_FALSE(asked.enough(3, 1e9));
  EXPECT_TRUE(asked.enough(4, 0));
  EXPECT_FALSE(automatic.enough(2, 1e9));
  EXPECT_TRUE(automatic.enough(3, 10.0));
  EXPECT_FALSE(automatic.enough(14, 9.9));
  EXPECT_TRUE(automatic.enough(15, 0));
}

TEST(BenchRounds, TheShareThatIsDoneReachesOneWhenTheyAreEnough) {
  for (const Rounds& rounds : {Rounds(4, 1.0), Rounds(0, 10.0)})
    for (int round = 0; round <= rounds.wanted(); ++round)
      for (const double seconds : {0.0, 0.5, 5.0, 9.9, 10.0, 99.0}) {
        const double share = rounds.share(round, seconds);
        EXPECT_GE(share, 0);
        EXPECT_LE(share, 1);
        EXPECT_EQ(share == 1, rounds.enough(round, seconds)) << round << " rounds in " << seconds << " s";
      }
  EXPECT_DOUBLE_EQ(Rounds(4, 1.0).share(1, 50), 0.25);
  EXPECT_DOUBLE_EQ(Rounds(0, 10.0).share(3, 5), 0.5);
}

TEST(BenchSession, AKernelThatRefusesEndsTheBenchWithItsReason) {
  SessionOptions options;
  options.facts = cpu();
  options.kernels = {"cpu_lesson_online"};
  options.threads = {1};
  const Result<Report> report = run_session({parse_problem("q16:d80:softcap=3").value()}, options);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().message().find("softcap"), std::string::npos) << report.status().message();
}

TEST(BenchLimits, TwoThreadsOnOneCoreAreSeen) {
  EXPECT_TRUE(Scaling::holds(190, 100, 2));
  EXPECT_FALSE(Scaling::holds(189, 100, 2));
  EXPECT_TRUE(Scaling::holds(100, 100, 1));
}

TEST(BenchLimits, ReadingTakesInEveryElement) {
  std::vector<float> ones(100003, 1.0f);
  for (const bool prefetch : {false, true}) {
    EXPECT_EQ(measure::read_loop(ones.data(), ones.size(), prefetch), 100003.0f);
    ones[777] = 5;
    EXPECT_EQ(measure::read_loop(ones.data(), ones.size(), prefetch), 100007.0f);
    ones[777] = 1;
  }
}

TEST(BenchLimits, RatesAreThoseOfAMachine) {
  const Result<ReadLimit> read = ReadLimit::make(1 << 20);
  ASSERT_TRUE(read.ok());
  for (const CacheState cache : {CacheState::warm, CacheState::cold}) {
    const double rate = read.value().sample(1, cache);
    EXPECT_GT(rate, 1e8);
    EXPECT_LT(rate, 1e13);
  }
  EXPECT_GT(quick_fma_rate(1), 1e9);
}

}  // namespace
}  // namespace runmax::bench
