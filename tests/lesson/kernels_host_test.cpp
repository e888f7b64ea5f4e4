// What can be known of the lesson's kernels without a GPU: numbers, refusals, plans, and the host twin.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "head_case.hpp"
#include "kernels/lesson/launch.hpp"
#include "lesson/occupancy.hpp"
#include "registry/registry.hpp"
#include "runmax/runmax.hpp"

namespace runmax {
namespace lesson {
namespace {

TEST(LessonKernels, OnlineTakes32896SharedBytesForQKAndV) {
  EXPECT_EQ(OnlineConfig::shared_floats, 64 * 64 + 32 * 65 + 32 * 64);
  EXPECT_EQ(OnlineConfig::shared_floats * 4, 32896);
}

TEST(LessonKernels, OnlineCarries32FloatsALane) { EXPECT_EQ(OnlineConfig::state_floats_per_lane, 32); }

TEST(LessonKernels, OnAT4OnlineHasOneBlockAnd25PercentAndNaiveFourAnd100Percent) {
  const MultiprocessorLimits t4 = published_limits(75);
  // Registers as ptxas gives them for sm_75: at most 64 for any of the four.
  const auto predict = [&](int threads, int shared_floats) {
    return predict_occupancy(t4, {threads, 64, 4 * shared_floats});
  };
  const Occupancy online = predict(OnlineConfig::threads, OnlineConfig::shared_floats);
  EXPECT_EQ(online.blocks, 1);
  EXPECT_EQ(online.fraction, 0.25);
  for (int floats : {NaiveConfig::scores_shared_floats, NaiveConfig::softmax_shared_floats,
                     NaiveConfig::weighted_sum_shared_floats}) {
    const Occupancy naive = predict(NaiveConfig::threads, floats);
    EXPECT_EQ(naive.blocks, 4) << floats;
    EXPECT_EQ(naive.fraction, 1.0) << floats;
  }
}

TEST(BankConflicts, AreThirtyTwoWayForTheUnpaddedKeyTileAndNoneForThePaddedOneOrForValues) {
  EXPECT_EQ(bank_conflict_ways(OnlineConfig::head_dim), 32);
  EXPECT_EQ(bank_conflict_ways(OnlineConfig::key_row_floats), 1);
  EXPECT_EQ(bank_conflict_ways(1), 1);
}

TEST(BankConflicts, CountDifferentWordsOfOneBank) {
  EXPECT_EQ(bank_conflict_ways(0), 1);  // a broadcast
  EXPECT_EQ(bank_conflict_ways(2), 2);
  EXPECT_EQ(bank_conflict_ways(16), 16);
  EXPECT_EQ(bank_conflict_ways(33), 1);
}

TEST(LessonRefusals, NameTheRule) {
  EXPECT_STREQ(cuda_online_refuses(100, 64), "n must be a multiple of 64");
  EXPECT_STREQ(cuda_online_refuses(-64, 64), "n must be a multiple of 64");
  EXPECT_STREQ(cuda_online_refuses(128, 80), "head_dim must be 64");
  EXPECT_STREQ(cuda_naive_refuses(100, 64), "n must be a multiple of 16");
  EXPECT_STREQ(cuda_naive_refuses(128, 63), "head_dim must be 64");
  EXPECT_STREQ(cuda_naive_refuses(1048576, 64), "n must be at most 1048560");
  for (std::int64_t n : {0, 64, 4096, 131072}) {
    EXPECT_EQ(cuda_online_refuses(n, 64), nullptr) << n;
    EXPECT_EQ(cuda_naive_refuses(n, 64), nullptr) << n;
  }
  EXPECT_EQ(cuda_naive_refuses(16, 64), nullptr);
}

TEST(NaiveMatrix, IsCountedIn64Bits) {
  EXPECT_EQ(naive_matrix_bytes(131072), std::size_t{64} << 30);
  EXPECT_EQ(naive_matrix_bytes(0), 0u);
}

// A GPU by its figures: planning asks no device.
DeviceFacts some_gpu() {
  DeviceFacts facts;
  facts.device = {DeviceKind::cuda, 0};
  facts.compute_capability = 75;
  facts.multiprocessors = 40;
  facts.max_threads_per_multiprocessor = 1024;
  facts.shared_bytes_per_block = 48 * 1024;
  facts.shared_bytes_per_block_optin = 64 * 1024;
  facts.free_bytes = std::int64_t{15} << 30;
  return facts;
}

std::string refusal_of(const char* kernel, const std::string& problem, int num_splits = 0) {
  KernelEntry entry = *find_kernel(kernel);
  entry.built = true;  // the rules are the same whether or not this build has nvcc
  PlanOptions options;
  options.num_splits = num_splits;
  return refusal(entry, parse_problem(problem).value(), some_gpu(), options).value_or("accepted");
}

TEST(LessonEntries, RefuseWithArgumentRuleAndValue) {
  EXPECT_EQ(refusal_of("cuda_lesson_online", "q100:d64"), "n must be a multiple of 64 (n=100, head_dim=64)");
  EXPECT_EQ(refusal_of("cuda_lesson_naive", "q100:d64"), "n must be a multiple of 16 (n=100, head_dim=64)");
  EXPECT_EQ(refusal_of("cuda_lesson_online", "q64:d80"), "head_dim must be 64 (n=64, head_dim=80)");
  EXPECT_EQ(refusal_of("cuda_lesson_online", "q64:k128:d64"),
            "kv_len must equal query_len (query_len=64, kv_len=128)");
  EXPECT_EQ(refusal_of("cuda_lesson_naive", "q64:d64:dv32"),
            "value_dim must equal head_dim (head_dim=64, value_dim=32)");
  EXPECT_EQ(refusal_of("cuda_lesson_online", "q64:d64:causal"), "causal is not served");
  EXPECT_EQ(refusal_of("cuda_lesson_online", "q64:d64:f16"), "dtype f16 is not served");
  EXPECT_EQ(refusal_of("cuda_lesson_online", "q64:d64", 2), "num_splits must be 0 or 1, got 2");
}

TEST(LessonEntries, AcceptBatchesGroupsAndTheIeeeMode) {
  for (const char* kernel : {"cuda_lesson_online", "cuda_lesson_naive"})
    EXPECT_EQ(refusal_of(kernel, "b2:hq4:hk2:q128:d64:ieee"), "accepted") << kernel;
}

TEST(LessonEntries, AreNeverChosenUnlessNamed) {
  EXPECT_EQ(find_kernel("cuda_lesson_online")->choice, Choice::by_name);
  EXPECT_EQ(find_kernel("cuda_lesson_naive")->choice, Choice::by_name);
}

TEST(LessonEntries, OnlyTheNaivePathNeedsAWorkspaceOfTwoSquareMatrices) {
  Plan plan;
  plan.problem = parse_problem("h3:q4096:d64").value();
  find_kernel("cuda_lesson_naive")->fill_plan(plan, some_gpu(), {});
  EXPECT_EQ(plan.workspace_bytes, 2u * 4 * 4096 * 4096);
  EXPECT_EQ(plan.launches, 9);
  Plan online;
  online.problem = plan.problem;
  find_kernel("cuda_lesson_online")->fill_plan(online, some_gpu(), {});
  EXPECT_EQ(online.workspace_bytes, 0u);
  EXPECT_EQ(online.launches, 3);
}

class HostTwin : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(HostTwin, PassesTheLessonGate) {
  const HeadCase c(GetParam(), HeadData::loud_last);
  const gate::Verdict verdict = judge_answer(c, host_answer<Fold>(c)).lesson;
  EXPECT_TRUE(verdict.passed) << words(c, verdict);
}

INSTANTIATE_TEST_SUITE_P(Lengths, HostTwin, ::testing::Values(1, 2, 31, 32, 33, 63, 64, 65, 97, 256));

TEST(HostTwinEdges, ARowThatSeesNoKeyIsZeroWithAnLseOfMinusInfinity) {
  const HeadCase c(33, HeadData::loud_last);
  std::vector<float> o(static_cast<std::size_t>(c.n * test_dim), std::nanf("")), lse(33, std::nanf(""));
  HostHead head = c.host_head(o);
  head.lse = lse.data();
  // Row i sees the keys before it: row 0 sees none.
  online_host_rows(head, 0, c.n, [](std::int64_t i) { return Keys{0, i}; });
  for (std::int64_t channel = 0; channel < test_dim; ++channel)
    EXPECT_EQ(o[static_cast<std::size_t>(channel)], 0.0f) << channel;
  EXPECT_EQ(lse[0], -std::numeric_limits<float>::infinity());
  // Row 1 sees one key, so it is that key's value.
  for (std::int64_t channel = 0; channel < test_dim; ++channel)
    EXPECT_EQ(o[static_cast<std::size_t>(test_dim + channel)], c.v[static_cast<std::size_t>(channel)]);
}

TEST(HostTwinEdges, ARowWhoseScoresAreAllMinusInfinityIsLikeOneThatSeesNoKey) {
  HeadCase c(64, HeadData::loud_last);
  for (std::int64_t j = 0; j < c.n; ++j) c.k[static_cast<std::size_t>(j * test_dim)] = 1.0f;
  c.q[0] = -std::numeric_limits<float>::infinity();
  const std::vector<float> o = host_answer<Fold>(c);
  for (std::int64_t channel = 0; channel < test_dim; ++channel)
    EXPECT_EQ(o[static_cast<std::size_t>(channel)], 0.0f) << channel;
  EXPECT_NE(o[static_cast<std::size_t>(test_dim)], 0.0f);
}

TEST(HostTwinEdges, TheLseIsTheLogOfTheSumOfExp) {
  const HeadCase c(97, HeadData::loud_last);
  std::vector<float> o(static_cast<std::size_t>(c.n * test_dim)), lse(97, std::nanf(""));
  HostHead head = c.host_head(o);
  head.lse = lse.data();
  online_host_rows(head, 0, c.n, [&](std::int64_t) { return Keys{0, c.n}; });
  gate::LseGate gate;
  reference::for_each_reference_row(c.head(), reference::all_rows(c.n), reference::AllKeys{c.n}, 1,
                                    [&](std::int64_t i, const reference::Row<double>& row) {
                                      gate.add(0, 0, i, row, lse[static_cast<std::size_t>(i)]);
                                    });
  EXPECT_TRUE(gate.verdict().passed) << gate::describe(gate.verdict(), "LSE gate", gate.rule(), "this test");
}

}  // namespace
}  // namespace lesson
}  // namespace runmax
