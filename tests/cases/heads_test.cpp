// Kinds 15 and 42: which KV head a query head reads, and how many of them there may be.
#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

// One key per KV head; head h's value is values[h].
Operands one_key(const Problem& p, const std::vector<float>& values) {
  HostTensor v = packed_tensor(v_shape(p));
  for (std::int64_t h = 0; h < p.kv_heads; ++h)
    for (std::int64_t c = 0; c < p.value_dim; ++c) v.at(0, h, 0, c) = values[static_cast<std::size_t>(h)];
  return equal_scores(p, v);
}

TEST_P(Case, O044_KvHeadIsQueryHeadOverGroup) {
  const Problem two = problem("hq6:hk2:q1:d8"), three = problem("hq6:hk3:q1:d8");
  const auto by_two = run(two, one_key(two, {100, 200}));
  if (!by_two) return;
  const auto by_three = run(three, one_key(three, {1, 2, 3}));
  for (std::int64_t h = 0; h < 6; ++h) {
    expect_row(*by_two, 0, h, 0, h < 3 ? 100 : 200, 200);
    expect_row(*by_three, 0, h, 0, static_cast<double>(1 + h / 2), 3);
  }
}

TEST_P(Case, O045_HeadsOfOneGroupAreNeighbours) {
  const Problem p = problem("hq4:hk2:q1:d8");
  const auto answer = run(p, one_key(p, {1, 2}));
  if (!answer) return;
  for (std::int64_t h = 0; h < 4; ++h) expect_row(*answer, 0, h, 0, static_cast<double>(1 + h / 2), 2);
}

TEST_P(Case, O046_AnyGroupSizeWorks) {
  for (const int heads : {1, 2, 3, 5, 6, 7, 12}) {
    const Problem p = problem("hq" + std::to_string(heads) + ":hk1:q1:k2:d8");
    const auto answer = run(p, equal_scores(p, rows({2, 6}, 8)));
    if (answer) expect_all(*answer, 4, 6, std::log(2.0));
  }
}

TEST(CaseRefused, O046_HeadsThatDoNotDivideAreAnErrorThatNamesBoth) {
  const Result<Problem> parsed = parse_problem("hq12:hk5:q1");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().message(), "kv_heads: must divide query_heads (query_heads=12, kv_heads=5)");
}

TEST_P(Case, O119_BatchAndHeadsAreLimitedByMemoryOnly) {
  for (const char* text : {"b65536:q1:d16", "h65536:q1:d16"}) {
    const Problem p = problem(text);
    HostTensor v = packed_tensor(v_shape(p));
    for (std::size_t at = 0; at < v.storage.size(); ++at) v.storage[at] = static_cast<float>(at % 8191);
    const auto answer = run(p, equal_scores(p, v));
    if (!answer) continue;
    ASSERT_EQ(answer->o.storage, v.storage) << text;
    ASSERT_TRUE(std::all_of(answer->lse.storage.begin(), answer->lse.storage.end(), [](float lse) {
      return lse == 0.0f;
    })) << text;
  }
}

}  // namespace
}  // namespace runmax::kit
