// Packed, paged and partly used batches: each is the dense problem of its sequences, to the bit.
#include "check/check.hpp"
#include "check/forms.hpp"
#include "check/runner.hpp"
#include "inputs/random.hpp"
#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {
namespace {

using check::HostOperands;
using check::HostTensor;

check::Answer run_form(const Problem& p, const HostOperands& in, std::int32_t threads = 2,
                       std::int32_t num_splits = 0) {
  const Result<check::Answer> answer = check::run_kernel(
      p, cpu_with(threads), {.kernel = "cpu_online", .threads = threads, .num_splits = num_splits}, in,
      check::form_o(p), check::form_lse(p));
  EXPECT_TRUE(answer.ok()) << to_text(p) << ": " << answer.status().message();
  if (!answer.ok()) return {};
  EXPECT_EQ(answer.value().trespass, "") << to_text(p);
  return answer.value();
}

inputs::HostInputs drawn_for(const Problem& p) {
  inputs::HostInputs in = inputs::draw(p);
  check::round_to(p.dtype, in);
  return in;
}

// Element b of drawn data as a dense problem of its own.
struct Alone {
  Problem p;
  HostOperands in;
};
Alone alone(const Problem& p, const inputs::HostInputs& drawn, std::int64_t b) {
  const check::SequencePlace place = check::places_of(p, drawn)[static_cast<std::size_t>(b)];
  Alone one{check::element_problem(p, place.lengths), {}};
  one.p.batch = 1;
  const auto part = [&](const std::vector<float>& data, std::int64_t heads, std::int64_t room,
                        std::int64_t length, std::int64_t dim) {
    HostTensor tensor = check::packed_tensor({1, heads, length, dim});
    for (std::int64_t h = 0; h < heads; ++h)
      std::copy_n(data.begin() + (b * heads + h) * room * dim, length * dim,
                  tensor.storage.begin() + h * length * dim);
    return tensor;
  };
  one.in.q = part(drawn.q, p.query_heads, p.query_len, one.p.query_len, p.head_dim);
  one.in.k = part(drawn.k, p.kv_heads, p.kv_len, one.p.kv_len, p.head_dim);
  one.in.v = part(drawn.v, p.kv_heads, p.kv_len, one.p.kv_len, p.value_dim);
  return one;
}

// Every element of a form has the bits of that element computed alone.
void expect_each_alone(const std::string& text) {
  const Problem p = problem_of(text);
  const inputs::HostInputs drawn = drawn_for(p);
  const check::Answer together = run_form(p, check::form_operands(p, drawn));
  const std::vector<check::SequencePlace> places = check::places_of(p, drawn);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const Alone one = alone(p, drawn, b);
    if (one.p.query_len == 0) continue;
    const check::Answer want = run_form(one.p, one.in);
    for (std::int64_t h = 0; h < p.query_heads; ++h)
      for (std::int64_t i = 0; i < one.p.query_len; ++i) {
        const std::int64_t o = check::form_index(p, together.o, places[static_cast<std::size_t>(b)], b, h, i);
        const std::int64_t lse =
            check::form_index(p, together.lse, places[static_cast<std::size_t>(b)], b, h, i);
        ASSERT_EQ(together.lse.storage[static_cast<std::size_t>(lse)], want.lse.at(0, h, i))
            << text << " element " << b << " head " << h << " row " << i;
        for (std::int64_t c = 0; c < p.value_dim; ++c)
          ASSERT_EQ(together.o.storage[static_cast<std::size_t>(o + c)], want.o.at(0, h, i, c))
              << text << " element " << b << " head " << h << " row " << i << " channel " << c;
      }
  }
}

TEST(CpuForms, APackedBatchIsEachSequenceAlone) {
  for (const char* text :
       {"hq4:hk2:varlen=37/37,1/300,0/5,128/200,97/0,5/5:d24:dv20:causal:batch_invariant",
        "hq6:hk2:varlen=1/1,1/2000,1/0,1/513,0/0,1/17:d64:causal:batch_invariant",
        "h2:varlen=200/1100,3/40,100/90:d64:window=50,2:batch_invariant",
        "hq8:hk1:varlen=96/96,97/97,1/3000,600/600:d16:causal:f16:batch_invariant",
        "hq2:hk1:varlen=33/70,70/33:d16:causal=top_left:bf16:batch_invariant", "h1:varlen=5/9:d8"})
    expect_each_alone(text);
}

TEST(CpuForms, AnElementThatUsesFewerKeysIsTheShorterProblem) {
  for (const char* text : {"b5:hq4:hk2:q1:k700:d64:seqused:batch_invariant",
                           "b6:hq4:hk2:q40:k130:d24:dv20:causal:seqused:batch_invariant",
                           "b4:h2:q3:k2600:d64:causal:seqused:batch_invariant:bf16",
                           "b3:h2:q130:k150:d64:window=40,0:seqused:batch_invariant",
                           "hq4:hk2:varlen=37/37,1/300,5/5,20/900:d24:causal:seqused:batch_invariant"})
    for (const char* seed : {":seed=1", ":seed=2"}) expect_each_alone(std::string(text) + seed);
}

TEST(CpuForms, PagesOfAnySizeAreTheContiguousCache) {
  for (const char* text :
       {"b3:hq4:hk2:q1:k700:d64:batch_invariant", "b2:hq4:hk2:q40:k130:d24:dv20:causal:batch_invariant",
        "b4:hq8:hk2:q7:k600:d40:causal:f16:batch_invariant",
        "b4:hq8:hk2:q100:k600:d64:causal:seqused:bf16:batch_invariant",
        "hq4:hk2:varlen=37/137,1/300,0/5,128/200,9/0:d24:causal:batch_invariant"})
    for (const int page : {1, 2, 3, 16, 17, 64, 256, 1024})
      expect_each_alone(std::string(text) + ":paged=" + std::to_string(page));
}

// Splits cut at the same keys whatever the pages.
TEST(CpuForms, PagesAndSplitsTogether) {
  for (const int splits : {1, 2, 5})
    for (const auto& [page, more] : {std::pair{3, ":d32"}, std::pair{16, ":d40:bf16"}, std::pair{16, ":d40"},
                                     std::pair{100, ":d33:dv32:f16"}, std::pair{900, ":d32"}}) {
      const Problem paged = problem_of("b2:hq4:hk2:q2:k777:causal:paged=" + std::to_string(page) + more);
      Problem dense = paged;
      dense.page_size = 0;
      const inputs::HostInputs drawn = drawn_for(dense);
      const check::Answer want = run_form(dense, check::form_operands(dense, drawn), 2, splits);
      const check::Answer got = run_form(paged, check::form_operands(paged, drawn), 2, splits);
      EXPECT_TRUE(same_bits(got.o.storage, want.o.storage)) << splits << " splits, pages of " << page;
      EXPECT_TRUE(same_bits(got.lse.storage, want.lse.storage)) << splits << " splits, pages of " << page;
    }
}

HostTensor normal_tensor(std::array<std::int64_t, 4> shape, std::uint64_t seed) {
  HostTensor tensor = check::packed_tensor(shape);
  inputs::Random random(seed);
  for (float& value : tensor.storage) value = random.normal();
  return tensor;
}

// Options of the scores count rows and keys within a sequence, wherever its rows and pages lie.
TEST(CpuForms, OptionsAndPagesTogether) {
  const Problem dense = problem_of("b2:hq4:hk2:q20:k130:d16:causal:bias:alibi:softcap=5:sink:dropout=0.25");
  Problem paged = dense;
  paged.page_size = 7;
  const inputs::HostInputs drawn = drawn_for(dense);
  const auto with_options = [&](const Problem& p) {
    HostOperands in = check::form_operands(p, drawn);
    in.bias = normal_tensor({2, 1, 20, 130}, 3);
    in.alibi_slopes = check::packed_tensor({1, 4, 1, 1}, {0.5f, 0.25f, 0.125f, 0.0625f});
    in.sink = normal_tensor({1, 4, 1, 1}, 4);
    in.dropout = {7, 11};
    return run_form(p, in);
  };
  const check::Answer want = with_options(dense), got = with_options(paged);
  EXPECT_TRUE(same_bits(got.o.storage, want.o.storage));
  EXPECT_TRUE(same_bits(got.lse.storage, want.lse.storage));
}

TEST(CpuForms, AlibiAndBiasAreThoseOfEachSequence) {
  const Problem p =
      problem_of("hq4:hk2:varlen=37/37,1/300,128/200,5/5:d24:causal:alibi:bias:batch_invariant");
  const inputs::HostInputs drawn = drawn_for(p);
  HostOperands in = check::form_operands(p, drawn);
  in.alibi_slopes = check::packed_tensor({1, 4, 1, 1}, {0.5f, 0.25f, 0.125f, 0.0625f});
  in.bias = normal_tensor({4, 4, p.query_len, p.kv_len}, 5);
  const check::Answer together = run_form(p, in);
  const std::vector<check::SequencePlace> places = check::places_of(p, drawn);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    Alone one = alone(p, drawn, b);
    one.in.alibi_slopes = in.alibi_slopes;
    one.in.bias = check::packed_tensor({1, 4, one.p.query_len, one.p.kv_len});
    for (std::int64_t h = 0; h < 4; ++h)
      for (std::int64_t i = 0; i < one.p.query_len; ++i)
        for (std::int64_t j = 0; j < one.p.kv_len; ++j) one.in.bias.at(0, h, i, j) = in.bias.at(b, h, i, j);
    const check::Answer want = run_form(one.p, one.in);
    for (std::int64_t h = 0; h < 4; ++h)
      for (std::int64_t i = 0; i < one.p.query_len; ++i)
        for (std::int64_t c = 0; c < p.value_dim; ++c)
          ASSERT_EQ(together.o.at(0, h, places[static_cast<std::size_t>(b)].query_start + i, c),
                    want.o.at(0, h, i, c))
              << "sequence " << b << " head " << h << " row " << i;
  }
}

// A bias may have the problem's own type; its elements are the same numbers in FP32.
TEST(CpuForms, ABiasOf16BitsIsThatBiasInF32) {
  for (const char* text : {"hq2:hk1:q20:k300:d16:bias:f16", "q1:k900:d16:bias:bf16"}) {
    const Problem p = problem_of(text);
    HostOperands in = check::form_operands(p, drawn_for(p));
    in.bias = normal_tensor({1, 1, p.query_len, p.kv_len}, 6);
    in.bias.at(0, 0, 0, 3) = -infinity;
    in.bias.dtype = p.dtype;
    check::decode(check::encode(in.bias).data(), in.bias);
    const check::Answer narrow = run_form(p, in);
    in.bias.dtype = DType::f32;
    EXPECT_TRUE(same_bits(run_form(p, in).o.storage, narrow.o.storage)) << text;
  }
}

TEST(CpuForms, BitsDoNotDependOnTheNumberOfThreads) {
  for (const char* text :
       {"hq4:hk2:varlen=37/37,1/3000,0/5,228/200,97/0,5/5,1/1,300/300:d24:causal",
        "b6:hq4:hk2:q1:k3000:d64:seqused:paged=16", "b5:hq2:hk2:q120:k700:d64:causal:seqused:f16"}) {
    const Problem p = problem_of(text);
    const HostOperands in = check::form_operands(p, drawn_for(p));
    const check::Answer one = run_form(p, in, 1);
    for (const int threads : {2, 3, 7, 16}) {
      const check::Answer many = run_form(p, in, threads);
      EXPECT_TRUE(same_bits(many.o.storage, one.o.storage)) << text << " with " << threads << " threads";
      EXPECT_TRUE(same_bits(many.lse.storage, one.lse.storage)) << text << " with " << threads << " threads";
    }
  }
}

// A sequence without queries has no work: whose memory a job takes over is then told by the one before it.
TEST(CpuForms, SequencesWithoutQueriesHoldNobodysMemoryBack) {
  const Problem p = problem_of("hq4:hk2:varlen=37/37,1/3000,0/5,228/200,97/0,5/5,1/1,300/300:d24:causal");
  const HostOperands in = check::form_operands(p, drawn_for(p));
  const check::Answer one = run_form(p, in, 1);
  for (int repeat = 0; repeat < 100; ++repeat)
    for (const int threads : {2, 3, 7})
      ASSERT_TRUE(same_bits(run_form(p, in, threads).o.storage, one.o.storage))
          << threads << " threads, repeat " << repeat;
}

TEST(CpuForms, TheGatesAcceptThem) {
  for (const char* text :
       {"hq4:hk2:varlen=37/137,1/300,0/5,128/200,9/0:d24:causal",
        "b3:hq4:hk2:q40:k700:d64:causal:seqused:paged=16", "b4:h2:q3:k2600:d64:seqused:in=hot",
        "hq8:hk2:varlen=100/100,1/2000:d128:paged=64:in=loud", "b2:h2:q50:k400:d64:paged=19:in=wide",
        "b4:hq4:hk1:q1:k5000:d128:seqused:paged=128:bf16", "hq2:hk2:varlen=300/300,20/60:d64:causal:f16"}) {
    const Result<check::CheckReport> report =
        check::check_problem(problem_of(text), cpu_with(2), {.kernel = "cpu_online"});
    ASSERT_TRUE(report.ok()) << text << ": " << report.status().message();
    EXPECT_TRUE(report.value().accepted()) << describe(report.value());
  }
}

// A kernel that reads the wrong page, or one row too many, must not pass the checker.
TEST(CpuForms, TheCheckerSeesAWrongPage) {
  const Problem p = problem_of("b2:h2:q3:k70:d16:paged=16");
  const inputs::HostInputs drawn = drawn_for(p);
  HostOperands in = check::form_operands(p, drawn);
  const auto accepted = [&](const HostOperands& operands) {
    std::vector<check::Answer> answers{run_form(p, operands)};
    std::vector<check::KernelReport> reports(1);
    check::judge_answers(p, drawn, reference::all_rows(3), 1, answers, reports, {});
    return reports[0].accepted();
  };
  EXPECT_TRUE(accepted(in));
  HostOperands wrong = in;
  std::swap(wrong.page_table.at(0, 0, 0, 1), wrong.page_table.at(1, 0, 0, 1));
  EXPECT_FALSE(accepted(wrong));
}

// Long and short sequences together: the long one is many pieces of work, and the workspace is bounded by it.
TEST(CpuForms, ALongSequenceAmongShortOnesIsSplit) {
  Problem p = problem_of("h1:d64:varlen=1/100000,1/10,1/10,1/10");
  const Result<Plan> planned = plan(p, cpu_with(8));
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  EXPECT_GE(planned.value().work_items, 64);
  EXPECT_EQ(planned.value().threads, 8);
  EXPECT_LT(planned.value().workspace_bytes, 32u << 20);
}

}  // namespace
}  // namespace runmax::testing_cpu
