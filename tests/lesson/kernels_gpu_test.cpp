// The lesson's CUDA kernels on a GPU: gates, determinism, memory, resources, the registry's way of calling
// them.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <tuple>

#include "guarded_floats.hpp"
#include "head_case.hpp"
#include "inputs/draw.hpp"
#include "kernels/lesson/launch.hpp"
#include "lesson/occupancy.hpp"
#include "runmax/runmax.hpp"

namespace runmax {
namespace lesson {
namespace {

#if defined(RUNMAX_WITH_CUDA)

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

int all_threads() { return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u)); }

enum class Path { naive, online };

// One head on the device, and both ways through it.
struct DeviceHead {
  GuardedFloats q, k, v, o, lse;
  std::int64_t n;

  explicit DeviceHead(const HeadCase& c) : q(c.q), k(c.k), v(c.v), o(c.n * test_dim), lse(c.n), n(c.n) {}

  // O, from poisoned output and workspace.
  std::vector<float> run(Path path) {
    o.poison();
    lse.poison();
    int error = 0;
    if (path == Path::online) {
      error = launch_online(q.data(), k.data(), v.data(), o.data(), n, nullptr, default_scale, lse.data());
      EXPECT_EQ(error, 0) << error_text(error);
      return o.read();
    }
    const GuardedFloats scores(n * n), weights(n * n);
    error = launch_naive(q.data(), k.data(), v.data(), o.data(), scores.data(), weights.data(), n, nullptr,
                         default_scale, lse.data());
    EXPECT_EQ(error, 0) << error_text(error);
    std::vector<float> answer = o.read();
    (void)scores.read();
    (void)weights.read();
    return answer;
  }
};

class BothGates : public OnGpu, public ::testing::WithParamInterface<std::tuple<Path, std::int64_t>> {};

TEST_P(BothGates, PassAndASecondRunGivesTheSameBits) {
  const auto& [path, n] = GetParam();
  const HeadCase c(n, HeadData::loud_last);
  DeviceHead head(c);
  const std::vector<float> answer = head.run(path);
  const std::vector<float> lse = head.lse.read();
  const std::vector<float> again = head.run(path);
  EXPECT_EQ(std::memcmp(answer.data(), again.data(), answer.size() * sizeof(float)), 0)
      << c.text() << ": two runs differ";

  // The naive path is itself held to the reference; the online path is held to both.
  const bool against_naive = path == Path::online && n % NaiveConfig::tile == 0;
  const std::vector<float> naive = against_naive ? head.run(Path::naive) : answer;
  gate::LessonGate reference_gate(n), naive_gate(n);
  gate::LseGate lse_gate;
  reference::for_each_reference_row(c.head(), reference::all_rows(n), reference::AllKeys{n}, all_threads(),
                                    [&](std::int64_t i, const reference::Row<double>& row) {
                                      const float* got = answer.data() + i * test_dim;
                                      reference_gate.add_row(0, 0, i, row, got, 1);
                                      naive_gate.add_row_against(0, 0, i, row, naive.data() + i * test_dim, 1,
                                                                 got, 1);
                                      lse_gate.add(0, 0, i, row, lse[static_cast<std::size_t>(i)]);
                                    });
  EXPECT_TRUE(reference_gate.verdict().passed) << words(c, reference_gate.verdict());
  EXPECT_TRUE(naive_gate.verdict().passed) << "against naive: " << words(c, naive_gate.verdict());
  EXPECT_TRUE(lse_gate.verdict().passed) << "LSE: " << words(c, lse_gate.verdict());
}

std::string path_and_length(const ::testing::TestParamInfo<BothGates::ParamType>& param) {
  return std::string(std::get<0>(param.param) == Path::naive ? "naive_" : "online_") +
         std::to_string(std::get<1>(param.param));
}

INSTANTIATE_TEST_SUITE_P(Small, BothGates,
                         ::testing::Combine(::testing::Values(Path::online),
                                            ::testing::Values(64, 128, 192, 320)),
                         path_and_length);
INSTANTIATE_TEST_SUITE_P(SmallNaive, BothGates,
                         ::testing::Combine(::testing::Values(Path::naive),
                                            ::testing::Values(16, 32, 48, 64, 240, 272)),
                         path_and_length);
INSTANTIATE_TEST_SUITE_P(Lesson, BothGates,
                         ::testing::Combine(::testing::Values(Path::naive, Path::online),
                                            ::testing::Values(256, 1024, 4096)),
                         path_and_length);

// Rows that a sample reaches, of an answer too long to check whole.
void expect_sampled_rows_pass(const HeadCase& c, const std::vector<float>& answer, std::int64_t count) {
  gate::LessonGate gate(c.n);
  reference::for_each_reference_row(c.head(), reference::sampled_rows(c.n, count), reference::AllKeys{c.n},
                                    all_threads(), [&](std::int64_t i, const reference::Row<double>& row) {
                                      gate.add_row(0, 0, i, row, answer.data() + i * test_dim, 1);
                                    });
  EXPECT_TRUE(gate.verdict().passed) << words(c, gate.verdict());
}

using LongOnGpu = OnGpu;

TEST_F(LongOnGpu, OnlinePassesAt131072) {
  const HeadCase c(131072, HeadData::loud_last);
  DeviceHead head(c);
  expect_sampled_rows_pass(c, head.run(Path::online), 32);
}

TEST_F(LongOnGpu, NaivePassesWhereTheMatrixHasMoreThan2To31Elements) {
  const std::int64_t n = 46352;  // the first multiple of 16 whose square is beyond 2^31
  const DeviceFacts facts = device_facts(first_gpu).value();
  if (0.8 * static_cast<double>(facts.free_bytes) < 2.0 * static_cast<double>(naive_matrix_bytes(n)))
    GTEST_SKIP() << "needs " << 2 * naive_matrix_bytes(n) << " bytes, the GPU has " << facts.free_bytes
                 << " free";
  const HeadCase c(n, HeadData::loud_last);
  const GuardedFloats q(c.q), k(c.k), v(c.v), o(n * test_dim);
  const std::size_t bytes = naive_matrix_bytes(n);
  const Result<DeviceMemory> scores = DeviceMemory::allocate(first_gpu, bytes);
  const Result<DeviceMemory> weights = DeviceMemory::allocate(first_gpu, bytes);
  ASSERT_TRUE(scores.ok() && weights.ok());
  const int error =
      launch_naive(q.data(), k.data(), v.data(), o.data(), static_cast<float*>(scores.value().data()),
                   static_cast<float*>(weights.value().data()), n, nullptr);
  ASSERT_EQ(error, 0) << error_text(error);
  expect_sampled_rows_pass(c, o.read(), 32);
}

using LaunchOnGpu = OnGpu;

TEST_F(LaunchOnGpu, OfNoRowsIsDoneAndOfARefusedLengthIsInvalid) {
  constexpr int invalid_value = 1;  // cudaErrorInvalidValue
  EXPECT_EQ(launch_online(nullptr, nullptr, nullptr, nullptr, 0, nullptr), 0);
  EXPECT_EQ(launch_naive(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr), 0);
  EXPECT_EQ(launch_online(nullptr, nullptr, nullptr, nullptr, 65, nullptr), invalid_value);
  EXPECT_EQ(launch_naive(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 17, nullptr), invalid_value);
}

TEST_F(LaunchOnGpu, ANaNInOneKeyReachesEveryRowAndOneInAQueryItsOwnRow) {
  for (Path path : {Path::naive, Path::online}) {
    HeadCase c(128, HeadData::loud_last);
    c.q[static_cast<std::size_t>(77 * test_dim + 3)] = std::nanf("");
    std::vector<float> answer = DeviceHead(c).run(path);
    for (std::int64_t i = 0; i < c.n; ++i)
      EXPECT_EQ(std::isnan(answer[static_cast<std::size_t>(i * test_dim)]), i == 77)
          << "query NaN, row " << i;
    c = HeadCase(128, HeadData::loud_last);
    c.k[static_cast<std::size_t>(40 * test_dim + 3)] = std::nanf("");
    answer = DeviceHead(c).run(path);
    for (std::int64_t i = 0; i < c.n; ++i)
      EXPECT_TRUE(std::isnan(answer[static_cast<std::size_t>(i * test_dim)])) << "key NaN, row " << i;
  }
}

TEST_F(LaunchOnGpu, ARowWhoseScoresAreAllMinusInfinityIsZeroWithAnLseOfMinusInfinity) {
  for (Path path : {Path::naive, Path::online}) {
    HeadCase c(128, HeadData::loud_last);
    const float infinity = std::numeric_limits<float>::infinity();
    // Channel 0 of every key is 1, and -inf in query 77: every score of that row is -inf.
    for (std::int64_t j = 0; j < c.n; ++j) c.k[static_cast<std::size_t>(j * test_dim)] = 1.0f;
    c.q[static_cast<std::size_t>(77 * test_dim)] = -infinity;
    DeviceHead head(c);
    const std::vector<float> answer = head.run(path);
    const std::vector<float> lse = head.lse.read();
    for (std::int64_t channel = 0; channel < test_dim; ++channel)
      EXPECT_EQ(answer[static_cast<std::size_t>(77 * test_dim + channel)], 0.0f) << channel;
    EXPECT_EQ(lse[77], -infinity);
    EXPECT_TRUE(std::isfinite(lse[76]) && std::isfinite(answer[76 * test_dim]));
  }
}

using ResourcesOnGpu = OnGpu;

TEST_F(ResourcesOnGpu, AreWhatArithmeticPredictsFromTheDevicesLimits) {
  const DeviceFacts facts = device_facts(first_gpu).value();
  MultiprocessorLimits limits;
  limits.compute_capability = facts.compute_capability;
  limits.max_threads = facts.max_threads_per_multiprocessor;
  limits.max_blocks = facts.max_blocks_per_multiprocessor;
  limits.registers = facts.registers_per_multiprocessor;
  limits.shared_bytes = static_cast<int>(facts.shared_bytes_per_multiprocessor);
  limits.reserved_shared_bytes_per_block = static_cast<int>(facts.reserved_shared_bytes_per_block);
  limits.shared_unit_bytes = shared_unit_bytes(facts.compute_capability);
  KernelResources kernels[kernel_count];
  ASSERT_EQ(read_resources(kernels), 0);
  for (const KernelResources& kernel : kernels) {
    const Occupancy predicted =
        predict_occupancy(limits, {kernel.threads, kernel.registers, kernel.planned_shared_bytes});
    EXPECT_EQ(kernel.shared_bytes, kernel.planned_shared_bytes) << kernel.name;
    EXPECT_EQ(kernel.blocks_per_multiprocessor, predicted.blocks) << kernel.name;
    EXPECT_EQ(kernel.occupancy, predicted.fraction) << kernel.name;
    EXPECT_EQ(kernel.local_bytes, 0) << kernel.name << " spills";
    EXPECT_LE(kernel.registers, 64) << kernel.name;
  }
  EXPECT_EQ(kernels[kernel_count - 1].shared_bytes, 32896);
}

class RegistryOnGpu : public OnGpu, public ::testing::WithParamInterface<const char*> {
 protected:
  // Runs `problem` on the kernel with K and V and O in the given layout, and returns run's status.
  Status run_problem(const Problem& problem, Layout layout) {
    const inputs::HostInputs in = inputs::draw(problem);
    q_ = in.q;
    k_ = in.k;
    v_ = in.v;
    const DeviceFacts facts = device_facts(first_gpu).value();
    PlanOptions options;
    options.kernel = GetParam();
    const Result<Plan> planned = plan(problem, facts, options);
    if (!planned.ok()) return planned.status();
    const GuardedFloats q(q_), k(k_), v(v_),
        o(problem.batch * problem.query_heads * problem.query_len * test_dim),
        lse(problem.batch * problem.query_heads * problem.query_len);
    const auto workspace_bytes = planned.value().workspace_bytes;
    const GuardedFloats workspace(static_cast<std::int64_t>(workspace_bytes / sizeof(float)));
    const auto view = [&](const GuardedFloats& floats, std::int64_t heads, std::int64_t dim) {
      return packed_view(floats.data(), DType::f32, {problem.batch, heads, problem.query_len, dim}, layout,
                         first_gpu);
    };
    Tensors tensors;
    tensors.q = view(q, problem.query_heads, test_dim);
    tensors.k = view(k, problem.kv_heads, test_dim);
    tensors.v = view(v, problem.kv_heads, test_dim);
    tensors.o = view(o, problem.query_heads, test_dim);
    tensors.lse =
        packed_view(lse.data(), DType::f32, {problem.batch, problem.query_heads, problem.query_len, 1},
                    Layout::bhsd, first_gpu);
    const Status status = run(planned.value(), tensors, {workspace.data(), workspace_bytes});
    o_ = o.read();
    lse_ = lse.read();
    (void)workspace.read();
    return status;
  }

  std::vector<float> q_, k_, v_, o_, lse_;
};

TEST_P(RegistryOnGpu, EveryHeadOfABatchPassesWithItsOwnKeys) {
  const Problem problem = parse_problem("b2:hq4:hk2:q128:d64:scale=0.2").value();
  const Status status = run_problem(problem, Layout::bhsd);
  ASSERT_TRUE(status.ok()) << status.message();
  const std::int64_t n = problem.query_len;
  gate::LessonGate gate(n);
  gate::LseGate lse_gate;
  for (std::int64_t b = 0; b < problem.batch; ++b)
    for (std::int64_t h = 0; h < problem.query_heads; ++h) {
      const std::int64_t query = (b * problem.query_heads + h) * n, key = (b * problem.kv_heads + h / 2) * n;
      const reference::Head<float> head{{q_.data() + query * test_dim, test_dim, 1},
                                        {k_.data() + key * test_dim, test_dim, 1},
                                        {v_.data() + key * test_dim, test_dim, 1},
                                        n,
                                        n,
                                        test_dim,
                                        test_dim,
                                        0.2};
      reference::for_each_reference_row(head, reference::all_rows(n), reference::AllKeys{n}, all_threads(),
                                        [&](std::int64_t i, const reference::Row<double>& row) {
                                          gate.add_row(b, h, i, row, o_.data() + (query + i) * test_dim, 1);
                                          lse_gate.add(b, h, i, row,
                                                       lse_[static_cast<std::size_t>(query + i)]);
                                        });
    }
  EXPECT_TRUE(gate.verdict().passed) << gate::describe(gate.verdict(), "lesson gate", gate.rule(),
                                                       "this test");
  EXPECT_TRUE(lse_gate.verdict().passed)
      << gate::describe(lse_gate.verdict(), "LSE gate", lse_gate.rule(), "this test");
}

TEST_P(RegistryOnGpu, RowsThatAreNotPackedAreRefusedAndNothingIsWritten) {
  const Status status = run_problem(parse_problem("h2:q64:d64").value(), Layout::bshd);
  EXPECT_EQ(status.code(), StatusCode::unsupported);
  EXPECT_EQ(status.message(),
            "q: " + std::string(GetParam()) +
                " takes packed rows, with strides (any, any, 64, 1), got length stride 128 and "
                "dim stride 1");
  for (const float value : o_) ASSERT_TRUE(std::isnan(value));
}

TEST_P(RegistryOnGpu, NoRowsAreDoneAtOnce) {
  const Status status = run_problem(parse_problem("h2:q0:d64").value(), Layout::bhsd);
  EXPECT_TRUE(status.ok()) << status.message();
}

INSTANTIATE_TEST_SUITE_P(Lesson, RegistryOnGpu, ::testing::Values("cuda_lesson_naive", "cuda_lesson_online"),
                         [](const auto& param) { return std::string(param.param); });

#else

TEST(LessonKernelsOnGpu, NeedABuildWithCuda) { GTEST_SKIP() << "this build has no CUDA kernels (no nvcc)"; }

#endif

}  // namespace
}  // namespace lesson
}  // namespace runmax
