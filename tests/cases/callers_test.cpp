// Kinds 30 to 33: threads and concurrent callers, memory, refusals before any work, and the build's flags.
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

double seconds_of(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST_P(Case, O084_AThreadLimitOfOneIsOneThread) {
  if (!serves_f32()) GTEST_SKIP() << "dtype f32 is not served";
  if (!on_cpu()) GTEST_SKIP() << "the thread limit is the CPU's";
  const Problem p = problem("h8:q256:d64");
  PlanOptions one_thread = options();
  one_thread.threads = 1;
  const Operands in = mean_index(p);
  const double all_before = seconds_of(CLOCK_PROCESS_CPUTIME_ID),
               own_before = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  const auto answer = run(p, in.q, in.k, in.v, one_thread);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->plan.threads, 1);
  const double own = seconds_of(CLOCK_THREAD_CPUTIME_ID) - own_before;
  const double others = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - all_before - own;
  EXPECT_LT(others, 0.2 * own + 0.005) << "seconds spent by threads that were not allowed";
}

TEST_P(Case, O084_PlansKeepTheLimit) {
  if (!serves_f32()) GTEST_SKIP() << "dtype f32 is not served";
  if (!on_cpu()) GTEST_SKIP() << "the thread limit is the CPU's";
  for (const int limit : {1, 2, 3, 8, 64}) {
    PlanOptions limited = options();
    limited.threads = limit;
    const Result<Plan> planned = plan(problem("h8:q1024:d64"), facts(), limited);
    ASSERT_TRUE(planned.ok());
    EXPECT_LE(planned.value().threads, limit);
    EXPECT_GE(planned.value().threads, 1);
  }
}

TEST_P(Case, O085_ConcurrentFirstCallsAreSafe) {
  if (!serves_f32()) GTEST_SKIP() << "dtype f32 is not served";
  std::vector<std::thread> callers;
  std::vector<std::string> failures(16);
  for (std::size_t t = 0; t < 16; ++t)
    callers.emplace_back([&, t] {
      const auto n = static_cast<std::int64_t>(64 + 64 * (t % 4));
      const Problem p = problem("h2:q" + std::to_string(n) + ":d64");
      const Operands in = mean_index(p);
      for (int repeat = 0; repeat < 4; ++repeat) {
        const Result<Answer> answer = check::run_kernel(p, facts(), options(), in.q, in.k, in.v);
        if (!answer.ok()) {
          failures[t] = answer.status().message();
          return;
        }
        for (std::int64_t h = 0; h < 2; ++h)
          for (std::int64_t i = 0; i < n; ++i)
            if (std::abs(answer.value().o.at(0, h, i, 63) - static_cast<float>(n - 1) / 2) > 1e-3f)
              failures[t] = "row " + std::to_string(i) + " is wrong";
      }
    });
  for (std::thread& caller : callers) caller.join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

// Resident bytes of this process.
double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

TEST_P(Case, O086_MemoryDoesNotGrowWithTheNumberOfShapes) {
  if (!serves_f32()) GTEST_SKIP() << "dtype f32 is not served";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory grows";
#endif
  if (!on_cpu()) GTEST_SKIP() << "host memory is counted";
  constexpr std::int64_t longest = 4000, d = 8;
  HostTensor q = constant({1, 1, 1, d}, 0.5f), k = constant({1, 1, longest, d}, 0.5f), v = k;
  const auto call = [&](std::int64_t kv_len) {
    Problem p;
    p.query_len = 1;
    p.kv_len = kv_len;
    p.head_dim = p.value_dim = d;
    const Result<Plan> planned = plan(p, facts(), options());
    ASSERT_TRUE(planned.ok());
    std::vector<unsigned char> memory(planned.value().workspace_bytes + 64);
    void* aligned = memory.data();
    std::size_t space = memory.size();
    aligned = std::align(64, planned.value().workspace_bytes, aligned, space);
    float o[d];
    Tensors tensors;
    tensors.q = q.view(q.storage.data(), {});
    tensors.k = k.view(k.storage.data(), {});
    tensors.v = v.view(v.storage.data(), {});
    tensors.k.shape[2] = tensors.v.shape[2] = kv_len;
    tensors.o = packed_view(o, DType::f32, {1, 1, 1, d}, Layout::bhsd);
    ASSERT_TRUE(runmax::run(planned.value(), tensors, {aligned, planned.value().workspace_bytes}).ok());
    ASSERT_NEAR(o[d - 1], 0.5f, 1e-6f);
  };
  const auto calls = [&](std::int64_t first, std::int64_t last) {
    std::vector<std::thread> callers;
    for (std::int64_t t = 0; t < 8; ++t)
      callers.emplace_back([&, t] {
        for (std::int64_t kv_len = first + t; kv_len < last; kv_len += 8) call(kv_len);
      });
    for (std::thread& caller : callers) caller.join();
  };
  calls(1, 100);
  const double before = resident_bytes();
  calls(100, longest);
  EXPECT_LT(resident_bytes() - before, 16 * 1024 * 1024);
}

TEST_P(Case, O087_ExactlyTheWorkspaceAskedForIsEnoughAndOneByteLessIsAnError) {
  const Problem p = problem("q1:k2048:d64");
  const Operands in = mean_index(p);
  std::size_t largest = 0;
  for (const int splits : {0, 4}) {
    PlanOptions with_splits = options();
    with_splits.num_splits = splits;
    // The runner hands out exactly workspace_bytes, between guards.
    const auto answer = run(p, in.q, in.k, in.v, with_splits);
    if (!answer) continue;
    expect_all(*answer, 1023.5, 2047, std::log(2048.0));
    const Plan& chosen = answer->plan;
    largest = std::max(largest, chosen.workspace_bytes);
    if (chosen.workspace_bytes == 0) continue;
    const Result<Answer> short_of = check::run_trapped(
        facts().device, chosen.workspace_bytes, in.q, in.k, in.v, packed_tensor(q_shape(p)),
        packed_tensor({1, 1, 1, 1}), [&](const Tensors& tensors, Workspace workspace) {
          workspace.bytes -= 1;
          return runmax::run(chosen, tensors, workspace, nullptr);
        });
    ASSERT_FALSE(short_of.ok());
    EXPECT_EQ(short_of.status().code(), StatusCode::workspace_too_small);
    const std::string message = short_of.status().message();
    EXPECT_NE(message.find(std::to_string(chosen.workspace_bytes)), std::string::npos) << message;
    EXPECT_NE(message.find(std::to_string(chosen.workspace_bytes - 1)), std::string::npos) << message;
  }
}

TEST(CaseRefused, O088_AskingForADeviceThatIsNotThereNamesTheReason) {
  if (built_with_cuda() && device_facts({DeviceKind::cuda, 0}).ok()) {
    const Result<DeviceFacts> far = device_facts({DeviceKind::cuda, 4096});
    ASSERT_FALSE(far.ok());
    EXPECT_NE(far.status().message().find("4096"), std::string::npos) << far.status().message();
    return;
  }
  const Result<DeviceFacts> gpu = device_facts({DeviceKind::cuda, 0});
  ASSERT_FALSE(gpu.ok());
  EXPECT_EQ(gpu.status().code(), StatusCode::no_device);
  EXPECT_FALSE(gpu.status().message().empty());
}

TEST_P(Case, O089_WhatIsRefusedIsNotStarted) {
  // 65 and 0x1p31: sizes just beyond a limit of some kernel. A refusal comes from plan, with nothing written.
  for (const char* text : {"q64:d65", "q65:d64", "q64:k128:d64", "q64:d64:softcap=30"}) {
    const Problem p = problem(text);
    const Result<Plan> planned = plan(p, facts(), options());
    if (planned.ok()) continue;
    EXPECT_EQ(planned.status().code(), StatusCode::unsupported);
    EXPECT_EQ(planned.status().message().find(GetParam() + ": "), 0u) << planned.status().message();
  }
}

TEST_P(Case, O089_AViewThatDoesNotFitThePlanIsRefusedAndTheOutputIsUntouched) {
  if (!serves_f32()) GTEST_SKIP() << "dtype f32 is not served";
  const Problem p = problem("q64:d64");
  const Operands in = mean_index(p);
  const Result<Plan> planned = plan(p, facts(), options());
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  // A plan for 128 keys with tensors of 64.
  std::vector<float> seen;
  const Result<Answer> answer = check::run_trapped(
      facts().device, planned.value().workspace_bytes, in.q, in.k, in.v, packed_tensor(q_shape(p)),
      packed_tensor({1, 1, 64, 1}), [&](Tensors tensors, Workspace workspace) {
        tensors.k.shape[2] = 63;
        const Status status = runmax::run(planned.value(), tensors, workspace, nullptr);
        EXPECT_EQ(status.code(), StatusCode::invalid_argument);
        EXPECT_NE(status.message().find("k: shape"), std::string::npos) << status.message();
        return Status();
      });
  ASSERT_TRUE(answer.ok());
  for (const float value : answer.value().o.storage) ASSERT_TRUE(std::isnan(value));
}

// O-116: an output whose elements share memory would keep only the last of them.
TEST_P(Case, O116_AnOutputThatIsBroadcastIsRefused) {
  if (!serves_f32()) GTEST_SKIP() << "dtype f32 is not served";
  const Problem p = problem("q64:d64");
  const Operands in = mean_index(p);
  const Result<Plan> planned = plan(p, facts(), options());
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  const Result<Answer> answer = check::run_trapped(
      facts().device, planned.value().workspace_bytes, in.q, in.k, in.v, packed_tensor(q_shape(p)),
      packed_tensor({1, 1, 64, 1}), [&](Tensors tensors, Workspace workspace) {
        Tensors flat = tensors;
        flat.o.strides[2] = 0;
        EXPECT_EQ(runmax::run(planned.value(), flat, workspace, nullptr).message(),
                  "o: is an output and cannot be broadcast (stride 0)");
        flat = tensors;
        flat.lse.strides[2] = 0;
        EXPECT_EQ(runmax::run(planned.value(), flat, workspace, nullptr).message(),
                  "lse: is an output and cannot be broadcast (stride 0)");
        return Status();
      });
  ASSERT_TRUE(answer.ok());
  for (const float value : answer.value().o.storage) ASSERT_TRUE(std::isnan(value));
}

// O-092: -ffast-math and its like would remove the infinities that the masks are made of.
TEST(CaseBuild, O092_NoFlagAssumesFiniteMath) {
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
  FAIL() << "these tests were compiled with -ffinite-math-only";
#endif
  std::ifstream file(RUNMAX_COMPILE_COMMANDS);
  if (!file) GTEST_SKIP() << "no compile_commands.json in this build";
  std::stringstream text;
  text << file.rdbuf();
  for (const char* flag : {"-ffast-math", "-Ofast", "-ffinite-math-only", "-fassociative-math",
                           "-funsafe-math-optimizations", "use_fast_math"})
    EXPECT_EQ(text.str().find(flag), std::string::npos) << flag;
}

}  // namespace
}  // namespace runmax::kit
