// The workspace, the caller's memory and the processor's state: used as promised, left as found.
#include <pmmintrin.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <array>
#include <cmath>
#include <fstream>
#include <thread>

#include "tests/kernels/cpu/attention_case.hpp"
#include "tests/kernels/cpu/placed.hpp"

namespace runmax::testing_cpu {
namespace {

TEST(CpuMemory, AnyStridesAndAnyAlignmentGiveTheBitsOfPackedMemory) {
  for (const char* text :
       {"b2:hq4:hk2:q21:k70:d20:dv12:causal", "b2:hq2:hk2:q130:k150:d64:dv64", "b2:hq2:hk1:q1:k600:d64:dv96"})
    for (const char* kernel : {"cpu_online", "cpu_naive"}) {
      const Problem p = problem_of(text);
      const inputs::HostInputs in = inputs::draw(p);
      const Answer want = compute(p, in, {.kernel = kernel});
      const Result<Plan> planned = plan(p, cpu_with(2), {.kernel = kernel});
      ASSERT_TRUE(planned.ok());
      for (std::size_t arrangement = 0; arrangement < std::size(arrangements); ++arrangement)
        for (const std::int64_t offset : {0, 1, 3}) {
          const auto at = [&](const std::vector<float>& data, std::array<std::int64_t, 4> shape) {
            return place(data, shape, arrangements[arrangement](shape), offset);
          };
          Placed q = at(in.q, {p.batch, p.query_heads, p.query_len, p.head_dim});
          Placed k = at(in.k, {p.batch, p.kv_heads, p.kv_len, p.head_dim});
          Placed v = at(in.v, {p.batch, p.kv_heads, p.kv_len, p.value_dim});
          Placed o =
              at(std::vector<float>(want.o.size(), nan), {p.batch, p.query_heads, p.query_len, p.value_dim});
          Placed lse = at(std::vector<float>(want.lse.size(), nan), {p.batch, p.query_heads, p.query_len, 1});
          GuardedBytes workspace(planned.value().workspace_bytes);
          ASSERT_TRUE(run(planned.value(), {q.view, k.view, v.view, o.view, lse.view},
                          {workspace.data(), workspace.bytes()})
                          .ok());
          EXPECT_TRUE(same_bits(gathered(o), want.o))
              << text << " " << kernel << " arrangement " << arrangement;
          EXPECT_TRUE(same_bits(gathered(lse), want.lse))
              << text << " " << kernel << " arrangement " << arrangement;
          EXPECT_TRUE(workspace.intact());
          std::size_t written = 0;
          for (const float x : o.memory) written += std::isnan(x) ? 0 : 1;
          EXPECT_EQ(written, want.o.size()) << "wrote between the elements of o";
        }
    }
}

TEST(CpuMemory, BroadcastInputsOfStrideZeroAreReadAsTheyLie) {
  const Problem p = problem_of("hq2:hk2:q5:k40:d16");
  const inputs::HostInputs one = inputs::draw(problem_of("hq1:hk1:q1:k1:d16"));
  inputs::HostInputs repeated;
  for (int n = 0; n < 10; ++n) repeated.q.insert(repeated.q.end(), one.q.begin(), one.q.end());
  for (int n = 0; n < 80; ++n) repeated.k.insert(repeated.k.end(), one.k.begin(), one.k.end());
  for (int n = 0; n < 80; ++n) repeated.v.insert(repeated.v.end(), one.v.begin(), one.v.end());
  const Answer want = compute(p, repeated);
  Answer got{std::vector<float>(want.o.size(), nan), std::vector<float>(want.lse.size(), nan)};
  const auto broadcast = [](const std::vector<float>& data, std::int64_t length) {
    return TensorView{const_cast<float*>(data.data()), DType::f32, {}, {1, 2, length, 16}, {0, 0, 0, 1}};
  };
  const Plan planned = plan(p, cpu_with(2)).value();
  GuardedBytes workspace(planned.workspace_bytes);
  ASSERT_TRUE(run(planned,
                  {broadcast(one.q, 5), broadcast(one.k, 40), broadcast(one.v, 40),
                   packed_view(got.o.data(), DType::f32, {1, 2, 5, 16}, Layout::bhsd),
                   packed_view(got.lse.data(), DType::f32, {1, 2, 5, 1}, Layout::bhsd)},
                  {workspace.data(), workspace.bytes()})
                  .ok());
  EXPECT_TRUE(same_bits(got.o, want.o));
  EXPECT_TRUE(same_bits(got.lse, want.lse));
}

TEST(CpuMemory, OneByteLessThanThePlanIsRefusedNamingBothSizes) {
  for (const char* kernel : {"cpu_online", "cpu_naive"}) {
    const Problem p = problem_of("hq4:hk2:q200:k300:d32");
    const Plan planned = plan(p, cpu_with(2), {.kernel = kernel}).value();
    inputs::HostInputs in = inputs::draw(p);
    std::vector<float> o(4 * 200 * 32, nan);
    const Tensors tensors{packed_view(in.q.data(), DType::f32, {1, 4, 200, 32}, Layout::bhsd),
                          packed_view(in.k.data(), DType::f32, {1, 2, 300, 32}, Layout::bhsd),
                          packed_view(in.v.data(), DType::f32, {1, 2, 300, 32}, Layout::bhsd),
                          packed_view(o.data(), DType::f32, {1, 4, 200, 32}, Layout::bhsd),
                          {}};
    GuardedBytes workspace(planned.workspace_bytes - 1);
    const Status status = run(planned, tensors, {workspace.data(), workspace.bytes()});
    EXPECT_EQ(status.code(), StatusCode::workspace_too_small);
    EXPECT_NE(status.message().find(std::to_string(planned.workspace_bytes)), std::string::npos);
    EXPECT_NE(status.message().find(std::to_string(planned.workspace_bytes - 1)), std::string::npos);
    for (const float x : o) ASSERT_TRUE(std::isnan(x));
  }
}

TEST(CpuMemory, APlanThatWasChangedByHandIsRefusedNotOverrun) {
  const Problem p = problem_of("hq4:q300:k3000:d32");
  Plan changed = plan(p, cpu_with(2), {.kernel = "cpu_online"}).value();
  changed.num_splits = 64;
  inputs::HostInputs in = inputs::draw(p);
  std::vector<float> o(4 * 300 * 32);
  const Tensors tensors{packed_view(in.q.data(), DType::f32, {1, 4, 300, 32}, Layout::bhsd),
                        packed_view(in.k.data(), DType::f32, {1, 4, 3000, 32}, Layout::bhsd),
                        packed_view(in.v.data(), DType::f32, {1, 4, 3000, 32}, Layout::bhsd),
                        packed_view(o.data(), DType::f32, {1, 4, 300, 32}, Layout::bhsd),
                        {}};
  GuardedBytes workspace(changed.workspace_bytes);
  EXPECT_EQ(run(changed, tensors, {workspace.data(), workspace.bytes()}).code(),
            StatusCode::invalid_argument);
  EXPECT_TRUE(workspace.intact());
}

TEST(CpuMemory, TheEngineNeedsMemoryForKeysTheBaselineForTheMatrix) {
  const auto bytes = [](const char* text, const char* kernel) {
    return static_cast<double>(
        plan(problem_of(text), cpu_with(2), {.kernel = kernel}).value().workspace_bytes);
  };
  const double matrix = 4.0 * 16384 * 16384;
  EXPECT_GE(bytes("q16384:d64", "cpu_naive"), matrix);
  EXPECT_LE(bytes("q16384:d64", "cpu_naive"), 1.05 * matrix);
  // Packed K and V, the state of each row and split, and what two threads hold.
  EXPECT_LE(bytes("q16384:d64", "cpu_online"), 2 * 4.0 * 16384 * 64 * 2 + 8e6);
  EXPECT_LE(bytes("q131072:d64", "cpu_online"), 200e6);
  EXPECT_LE(bytes("b256:hq64:hk4:q1:k8192:d128", "cpu_online"), 64e6) << "decoding packs keys as it goes";
}

TEST(CpuMemory, ABaselineWhoseMatrixCannotBeAddressedIsRefused) {
  const Result<Plan> planned = plan(problem_of("b4:hq64:q4194304:d64"), cpu_with(2), {.kernel = "cpu_naive"});
  ASSERT_FALSE(planned.ok());
  EXPECT_EQ(planned.status().code(), StatusCode::unsupported);
  EXPECT_NE(planned.status().message().find("2^47"), std::string::npos) << planned.status().message();
}

TEST(CpuMemory, SizesThatDoNotFitIn64BitsAreRefusedBeforeTheyAreComputed) {
  for (const char* text :
       {"q4096:k9007199254740992:d64", "q1:k1000000000000000000:d0:dv0", "hq100000000:hk1:q1000000000:k0:d1"})
    for (const char* kernel : {"cpu_online", "cpu_naive"}) {
      const Result<Plan> planned = plan(problem_of(text), cpu_with(64), {.kernel = kernel});
      ASSERT_FALSE(planned.ok()) << kernel << " " << text;
      EXPECT_EQ(planned.status().code(), StatusCode::unsupported) << planned.status().message();
    }
}

std::int64_t resident_bytes() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(CpuMemory, DoesNotGrowWithTheNumberOfShapes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory grows";
#endif
  struct Caller {
    std::vector<float> q = std::vector<float>(8, 0.5f), k = std::vector<float>(8000 * 8, 0.25f),
                       o = std::vector<float>(8);
    GuardedBytes workspace = GuardedBytes(1 << 20);
  };
  std::vector<Caller> memory(8);
  const auto calls = [&](std::int64_t from, std::int64_t to) {
    std::vector<std::thread> callers;
    for (std::size_t t = 0; t < 8; ++t)
      callers.emplace_back([&, t] {
        Caller& own = memory[t];
        for (std::int64_t n = from + static_cast<std::int64_t>(t); n < to; n += 8) {
          Problem p;
          p.query_len = 1;
          p.kv_len = n;
          p.head_dim = p.value_dim = 8;
          const Plan planned = plan(p, cpu_with(4)).value();
          ASSERT_LE(planned.workspace_bytes, own.workspace.bytes());
          const auto view = [](std::vector<float>& x, std::int64_t length) {
            return packed_view(x.data(), DType::f32, {1, 1, length, 8}, Layout::bhsd);
          };
          ASSERT_TRUE(run(planned, {view(own.q, 1), view(own.k, n), view(own.k, n), view(own.o, 1), {}},
                          {own.workspace.data(), planned.workspace_bytes})
                          .ok());
        }
      });
    for (std::thread& caller : callers) caller.join();
  };
  calls(1, 101);
  const std::int64_t before = resident_bytes();
  calls(1, 8000);
  const std::int64_t grown = resident_bytes() - before;
  EXPECT_LT(grown, std::int64_t{4} << 20);
  // Host threads that come and go leave nothing either.
  for (int round = 0; round < 40; ++round) calls(4000, 4064);
  EXPECT_LT(resident_bytes() - before, std::int64_t{4} << 20) << grown << " of it by the lengths";
}

TEST(CpuState, RoundingAndSubnormalModesAreLeftAsFoundAndDoNotMatter) {
  const Problem p = problem_of("hq2:q100:k700:d32:in=wide");
  const inputs::HostInputs in = inputs::draw(p);
  const unsigned before = _mm_getcsr();
  const Answer plain = compute(p, in, {.kernel = "cpu_online", .threads = 1});
  EXPECT_EQ(_mm_getcsr() & 0xffc0u, before & 0xffc0u) << "control bits of MXCSR";
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
  const unsigned flushing = _mm_getcsr();
  const Answer flushed = compute(p, in, {.kernel = "cpu_online", .threads = 1});
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & 0xffc0u, flushing & 0xffc0u) << "control bits of MXCSR";
  for (std::size_t i = 0; i < plain.o.size(); ++i) EXPECT_NEAR(flushed.o[i], plain.o[i], 1e-6f * 8192);
}

// Weights far below the maximum are exact zeros, never subnormals, which cost a processor 100 cycles each.
// Both inputs take turns: on a busy machine either may be slow for a while, so each has many chances of a
// quick run.
TEST(CpuState, KeysFarBelowTheMaximumCostNoMoreThanOthers) {
  const Problem p = problem_of("q64:k4096:d64:scale=1");
  inputs::HostInputs in = inputs::draw(p);
  std::fill(in.q.begin(), in.q.end(), 0.0f);
  std::fill(in.k.begin(), in.k.end(), 0.0f);
  for (std::int64_t i = 0; i < 64; ++i) in.q[static_cast<std::size_t>(i * 64)] = 1.0f;
  const auto seconds = [&](float low) {
    for (std::int64_t j = 64; j < 4096; ++j) in.k[static_cast<std::size_t>(j * 64)] = low;
    timespec begin{}, end{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    compute(p, in, {.kernel = "cpu_online", .threads = 1});
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return static_cast<double>(end.tv_sec - begin.tv_sec) +
           1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
  };
  for (const float low : {-87.2f, -87.4f, -88.0f, -100.0f, -103.0f, -1e30f}) {
    double near_by = 1e9, far_below = 1e9;
    for (int turn = 0; turn < 200 && (turn < 10 || far_below > 1.5 * near_by); ++turn) {
      near_by = std::min(near_by, seconds(0));
      far_below = std::min(far_below, seconds(low));
    }
    EXPECT_LE(far_below, 1.5 * near_by) << "scores of " << low;
  }
}

TEST(CpuMasks, NaNOrInfinityInAKeyShowsInTheRowsThatSeeItAndNowhereElse) {
  for (const char* text : {"q40:k40:d16:causal", "q110:k130:d16:window=7,3", "q20:k600:d16:causal",
                           "q70:k33:d16:causal=top_left"})
    for (const char* kernel : {"cpu_online", "cpu_naive"}) {
      const Problem p = problem_of(text);
      const inputs::HostInputs clean = inputs::draw(p);
      const Answer before = compute(p, clean, {.kernel = kernel});
      for (std::int64_t j = 0; j<p.kv_len; j += p.kv_len> 100 ? 7 : 1)
        for (const float bad : {nan, infinity}) {
          inputs::HostInputs in = clean;
          in.k[static_cast<std::size_t>(j * 16 + 3)] = bad;
          in.v[static_cast<std::size_t>(j * 16 + 5)] = nan;
          const Answer after = compute(p, in, {.kernel = kernel});
          for (std::int64_t i = 0; i < p.query_len; ++i) {
            const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
            const bool sees = keys.begin <= j && j < keys.end;
            for (std::int64_t c = 0; c < 16; ++c) {
              const auto at = static_cast<std::size_t>(i * 16 + c);
              if (!sees) {
                ASSERT_EQ(after.o[at], before.o[at]) << text << " key " << j << " row " << i;
              } else if (std::isnan(bad) || c == 5) {
                ASSERT_TRUE(std::isnan(after.o[at])) << text << " key " << j << " row " << i;
              }
            }
          }
        }
    }
}

}  // namespace
}  // namespace runmax::testing_cpu
