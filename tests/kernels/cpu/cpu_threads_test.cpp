// Threads and splits: what they may change (nothing but time) and what they must not exceed.
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/workers.hpp"
#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {
namespace {

class CpuThreads : public ::testing::TestWithParam<const char*> {};

TEST_P(CpuThreads, GiveTheSameBitsInAnyNumberAndInEveryRun) {
  const Problem p = problem_of(GetParam());
  const inputs::HostInputs in = inputs::draw(p);
  for (const char* kernel : {"cpu_online", "cpu_naive"}) {
    const Answer one = compute(p, in, {.kernel = kernel, .threads = 1});
    for (const std::int32_t threads : {1, 2, 3, 4, 7, 16, 64}) {
      const Answer many = compute(p, in, {.kernel = kernel, .threads = threads});
      EXPECT_TRUE(same_bits(many.o, one.o)) << kernel << " with " << threads << " threads";
      EXPECT_TRUE(same_bits(many.lse, one.lse)) << kernel << " with " << threads << " threads";
    }
  }
}

std::string problem_name(const ::testing::TestParamInfo<const char*>& test) { return test_name(test.param); }
INSTANTIATE_TEST_SUITE_P(Problems, CpuThreads,
                         ::testing::Values("q31:d64", "q33:d64", "q97:d64", "q1:k1000:d64", "q1:k9000:d64",
                                           "hq8:hk2:q1:k5000:d64", "b2:hq4:hk2:q200:d32:causal",
                                           "hq3:hk3:q500:k700:d16:window=100,0", "b40:q3:k5:d8"),
                         problem_name);

class CpuSplits : public ::testing::TestWithParam<std::int32_t> {};

TEST_P(CpuSplits, InAnyNumberHoldTheGateAndTheThreadLaw) {
  for (const char* text : {"q1:k100:d64", "q5:k3000:d64:in=loud", "q40:k700:d16:causal",
                           "hq6:hk2:q9:k333:d32", "q300:k100:d16:causal"}) {
    const Problem p = problem_of(text);
    const inputs::HostInputs in = inputs::draw(p);
    const Answer one = compute(p, in, {.kernel = "cpu_online", .threads = 1, .num_splits = GetParam()});
    expect_gated(p, in, one, "cpu_online", 40);
    const Answer many = compute(p, in, {.kernel = "cpu_online", .threads = 8, .num_splits = GetParam()});
    EXPECT_TRUE(same_bits(many.o, one.o)) << text;
    EXPECT_TRUE(same_bits(many.lse, one.lse)) << text;
  }
}
INSTANTIATE_TEST_SUITE_P(Numbers, CpuSplits, ::testing::Values(1, 2, 3, 7, 16, 100, 128, 1000));

TEST(CpuSplitPolicy, DependsOnTheProblemAlone) {
  for (const char* text : {"q1:k100000:d64", "hq8:q512:d64", "b64:hq8:q1:k4096:d128", "q4096:d64"}) {
    const Problem p = problem_of(text);
    const Result<Plan> few = plan(p, cpu_with(1)),
                       many = plan(p, cpu_with(64), {.kernel = "cpu_online", .threads = 64});
    ASSERT_TRUE(few.ok() && many.ok());
    EXPECT_EQ(few.value().num_splits, many.value().num_splits) << text;
    EXPECT_EQ(few.value().work_items, many.value().work_items) << text;
  }
}

TEST(CpuSplitPolicy, GivesOneLongRowWorkForManyThreads) {
  const Result<Plan> planned = plan(problem_of("q1:k131072:d128"), cpu_with(32));
  ASSERT_TRUE(planned.ok());
  EXPECT_GE(planned.value().work_items, 64);
  EXPECT_EQ(planned.value().threads, 32);
}

TEST(CpuPlan, NeverAsksForMoreThreadsThanWorkOrLimit) {
  EXPECT_EQ(plan(problem_of("q10:k10"), cpu_with(64)).value().threads, 1);
  EXPECT_EQ(
      plan(problem_of("hq8:q2048"), cpu_with(64), {.kernel = "cpu_online", .threads = 3}).value().threads, 3);
}

TEST(CpuWorkers, RunEachItemOnceWithinTheLimitAndNeverOneNumberTwiceAtATime) {
  for (const std::int32_t limit : {1, 2, 3, 8}) {
    Workers workers(limit);
    std::vector<std::atomic<int>> runs(200);
    std::vector<std::atomic<int>> in_use(static_cast<std::size_t>(limit));
    std::atomic<int> active{0}, most{0};
    std::atomic<bool> shared{false};
    workers.for_each(200, [&](std::int64_t worker, std::int64_t item) {
      ASSERT_LT(worker, limit);
      const int now = ++active;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      if (++in_use[static_cast<std::size_t>(worker)] != 1) shared = true;
      ++runs[static_cast<std::size_t>(item)];
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      --in_use[static_cast<std::size_t>(worker)];
      --active;
    });
    EXPECT_LE(most, limit);
    EXPECT_FALSE(shared) << "two threads had one worker's memory";
    for (const auto& count : runs) EXPECT_EQ(count, 1);
  }
}

TEST(CpuWorkers, PassOnAnExceptionAfterAllThreadsHaveLeft) {
  for (const std::int32_t limit : {1, 2, 8}) {
    std::atomic<int> active{0};
    EXPECT_THROW(Workers(limit).for_each(100,
                                         [&](std::int64_t, std::int64_t item) {
                                           ++active;
                                           if (item == 5) {
                                             --active;
                                             throw std::bad_alloc();
                                           }
                                           std::this_thread::sleep_for(std::chrono::microseconds(50));
                                           --active;
                                         }),
                 std::bad_alloc);
    EXPECT_EQ(active, 0);
  }
}

// Registered with CTest as a process of its own, so these are the first calls.
TEST(CpuConcurrency, SixteenHostThreadsMayMakeTheFirstCallsAtOnce) {
  std::vector<Problem> problems;
  std::vector<inputs::HostInputs> in;
  for (int t = 0; t < 16; ++t) {
    problems.push_back(problem_of("hq2:q" + std::to_string(17 + 13 * t) + ":k" +
                                  std::to_string(40 + 101 * t) + ":d" + std::to_string(8 + 4 * t)));
    in.push_back(inputs::draw(problems.back()));
  }
  std::vector<Answer> answers(16);
  std::atomic<int> ready{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 16; ++t)
    callers.emplace_back([&, t] {
      const auto at = static_cast<std::size_t>(t);
      ++ready;
      while (ready < 16) std::this_thread::yield();
      answers[at] = compute(problems[at], in[at]);
    });
  for (std::thread& caller : callers) caller.join();
  for (std::size_t t = 0; t < 16; ++t) expect_gated(problems[t], in[t], answers[t], "cpu_online", 40);
}

}  // namespace
}  // namespace runmax::testing_cpu
