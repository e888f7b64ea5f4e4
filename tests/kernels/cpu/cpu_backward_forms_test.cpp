// Gradients of packed, paged and partly used batches: those of each sequence alone, to the bit, and on a page
// the sum over all who use it.
#include <functional>

#include "check/check.hpp"
#include "check/forms.hpp"
#include "check/gradient_check.hpp"
#include "inputs/draw_dout.hpp"
#include "reference/reference.hpp"
#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {
namespace {

using check::GradientAnswer;
using check::HostOperands;
using check::HostTensor;

// A problem's data, and what it is given to backward.
struct Case {
  Problem p;
  inputs::HostInputs drawn;
  std::vector<float> dout;
  HostOperands in;

  explicit Case(const std::string& text) : p(problem_of(text)), drawn(inputs::draw(p)) {
    dout = inputs::draw_dout(p);
    check::round_to(p.dtype, drawn);
    check::round_to(p.dtype, dout);
    in = check::form_operands(p, drawn);
  }

  GradientAnswer run(std::int32_t threads = 2) const { return run(in, check::form_dout(p, dout), threads); }
  GradientAnswer run(const HostOperands& operands, const HostTensor& dout_tensor,
                     std::int32_t threads = 2) const {
    forward = check::run_kernel(p, cpu_with(threads), {}, operands, check::form_o(p), check::form_lse(p));
    EXPECT_TRUE(forward.ok()) << to_text(p) << ": " << forward.status().message();
    const Result<Plan> planned = plan_backward(p, cpu_with(threads), {.kernel = "", .threads = threads});
    EXPECT_TRUE(planned.ok()) << to_text(p) << ": " << planned.status().message();
    if (!forward.ok() || !planned.ok()) return {};
    Result<GradientAnswer> answer =
        check::run_backward_trapped(planned.value(), operands, forward.value().o, forward.value().lse,
                                    dout_tensor, operands.q, operands.k, operands.v);
    EXPECT_TRUE(answer.ok()) << to_text(p) << ": " << answer.status().message();
    if (!answer.ok()) return {};
    EXPECT_EQ(answer.value().trespass, "") << to_text(p);
    return answer.value();
  }
  mutable Result<check::Answer> forward = Status(StatusCode::internal_error, "did not run");
};

// Rows [0, length) of the heads of element b of drawn data.
std::vector<float> part(const std::vector<float>& drawn, std::int64_t b, std::int64_t heads,
                        std::int64_t room, std::int64_t length, std::int64_t dim) {
  std::vector<float> rows;
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto first = drawn.begin() + (b * heads + h) * room * dim;
    rows.insert(rows.end(), first, first + length * dim);
  }
  return rows;
}

// Element b as a dense problem of its own.
GradientAnswer alone(const Case& c, std::int64_t b) {
  const Problem& p = c.p;
  const Problem own = [&] {
    Problem one =
        check::element_problem(p, check::places_of(p, c.drawn)[static_cast<std::size_t>(b)].lengths);
    one.batch = 1;
    return one;
  }();
  Case one(to_text(own));
  one.in.q = check::packed_tensor({1, p.query_heads, own.query_len, p.head_dim},
                                  part(c.drawn.q, b, p.query_heads, p.query_len, own.query_len, p.head_dim));
  one.in.k = check::packed_tensor({1, p.kv_heads, own.kv_len, p.head_dim},
                                  part(c.drawn.k, b, p.kv_heads, p.kv_len, own.kv_len, p.head_dim));
  one.in.v = check::packed_tensor({1, p.kv_heads, own.kv_len, p.value_dim},
                                  part(c.drawn.v, b, p.kv_heads, p.kv_len, own.kv_len, p.value_dim));
  one.dout = part(c.dout, b, p.query_heads, p.query_len, own.query_len, p.value_dim);
  return one.run();
}

void expect_each_alone(const std::string& text) {
  const Case c(text);
  const Problem& p = c.p;
  const GradientAnswer got = c.run();
  const std::vector<check::SequencePlace> places = check::places_of(p, c.drawn);
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const check::SequencePlace& place = places[static_cast<std::size_t>(b)];
    const GradientAnswer want = alone(c, b);
    const auto expect_row = [&](const char* name, const HostTensor& tensor, std::int64_t index,
                                const HostTensor& wanted, std::int64_t h, std::int64_t row) {
      for (std::int64_t n = 0; n < tensor.shape[3]; ++n)
        ASSERT_EQ(tensor.storage[static_cast<std::size_t>(index + n)], wanted.at(0, h, row, n))
            << text << ": " << name << " of element " << b << " head " << h << " row " << row << " channel "
            << n;
    };
    for (std::int64_t h = 0; h < p.query_heads; ++h)
      for (std::int64_t i = 0; i < place.lengths.query_len; ++i)
        expect_row("dq", got.dq, check::form_index(p, got.dq, place, b, h, i), want.dq, h, i);
    for (std::int64_t h = 0; h < p.kv_heads; ++h)
      for (std::int64_t j = 0; j < place.lengths.kv_len; ++j) {
        const auto index = [&](const HostTensor& tensor) {
          return check::form_key_index(p, tensor, place, c.in.page_table, b, h, j);
        };
        expect_row("dk", got.dk, index(got.dk), want.dk, h, j);
        expect_row("dv", got.dv, index(got.dv), want.dv, h, j);
      }
  }
}

TEST(CpuBackwardForms, APackedBatchIsEachSequenceAlone) {
  for (const char* text :
       {"hq4:hk2:varlen=37/37,1/300,0/5,128/200,97/0,5/5:d24:dv20:causal",
        "hq6:hk2:varlen=1/1,1/2000,1/0,1/513,0/0,1/17:d64:causal",
        "h2:varlen=200/1100,3/40,100/90:d64:window=50,2", "hq8:hk1:varlen=96/96,97/97,1/1000,200/400:d16:f16",
        "hq2:hk1:varlen=33/70,70/33:d16:causal=top_left:bf16", "h1:varlen=5/9:d8", "h2:varlen=0/0,0/7:d8"})
    expect_each_alone(text);
}

TEST(CpuBackwardForms, AnElementThatUsesFewerKeysIsTheShorterProblem) {
  for (const char* text :
       {"b5:hq4:hk2:q1:k700:d64:seqused", "b6:hq4:hk2:q40:k130:d24:dv20:causal:seqused",
        "b4:h2:q3:k1600:d64:causal:seqused:bf16", "b3:h2:q130:k150:d64:window=40,0:seqused",
        "hq4:hk2:varlen=37/37,1/300,5/5,20/900:d24:causal:seqused"})
    for (const char* seed : {":seed=1", ":seed=2"}) expect_each_alone(std::string(text) + seed);
}

TEST(CpuBackwardForms, PagesOfAnySizeAreTheContiguousCache) {
  for (const char* text :
       {"b3:hq4:hk2:q1:k700:d64", "b2:hq4:hk2:q40:k130:d24:dv20:causal", "b4:hq8:hk2:q7:k600:d40:causal:f16",
        "b3:hq4:hk2:q100:k600:d64:causal:seqused:bf16",
        "hq4:hk2:varlen=37/137,1/300,0/5,128/200,9/0:d24:causal"})
    for (const int page : {1, 3, 16, 17, 256, 1024})
      expect_each_alone(std::string(text) + ":paged=" + std::to_string(page));
}

TEST(CpuBackwardForms, BitsDoNotDependOnTheNumberOfThreads) {
  for (const char* text :
       {"hq4:hk2:varlen=37/37,1/3000,0/5,228/200,97/0,5/5,1/1,300/300:d24:causal:bias:sink:softcap=9",
        "b6:hq4:hk2:q1:k3000:d64:seqused:paged=16", "b5:hq2:hk2:q120:k700:d64:causal:seqused:f16:alibi"}) {
    const Case c(text);
    const GradientAnswer one = c.run(1);
    for (int repeat = 0; repeat < 5; ++repeat)
      for (const int threads : {2, 3, 7}) {
        const GradientAnswer many = c.run(threads);
        for (const auto& [got, want] :
             {std::pair{&many.dq, &one.dq}, std::pair{&many.dk, &one.dk}, std::pair{&many.dv, &one.dv},
              std::pair{&many.dbias, &one.dbias}, std::pair{&many.dsink, &one.dsink}})
          ASSERT_TRUE(same_bits(got->storage, want->storage)) << text << " with " << threads << " threads";
      }
  }
}

// A bias that heads share is summed head after head. A head all of whose keys are hidden has nothing to add,
// and still must not let the next one overtake those before it.
TEST(CpuBackwardForms, AHeadWithoutVisibleKeysKeepsTheOrderOfASharedBias) {
  Case c("b6:q2000:k300:d8:mask:bias");
  HostTensor mask = check::packed_tensor({6, 1, 1, 1}, {1, 0, 1, 0, 0, 1});
  mask.dtype = DType::boolean;
  c.in.mask = mask;
  c.in.bias = check::packed_tensor({1, 1, 1, 300});
  const GradientAnswer one = c.run(1);
  for (int repeat = 0; repeat < 10; ++repeat)
    for (const int threads : {3, 8})
      ASSERT_TRUE(same_bits(c.run(threads).dbias.storage, one.dbias.storage)) << "repeat " << repeat;
}

// Batch elements with a common prefix: both see the first two pages, and one sees a page twice.
TEST(CpuBackwardForms, APageGetsTheSumOverAllWhoUseItByFiniteDifferences) {
  for (const char* text :
       {"b2:hq2:hk1:q3:k11:d4:dv3:causal:paged=3:seqused", "b2:hq2:hk1:q3:k11:d4:dv3:paged=3"}) {
    Case c(text);
    const Problem& p = c.p;
    const std::vector<std::int64_t> lengths =
        p.seqused ? std::vector<std::int64_t>{11, 7} : std::vector<std::int64_t>{11, 11};
    if (p.seqused) c.in.kv_lengths.storage = {11, 7};
    const std::int64_t pages = 7;
    inputs::Random random(9);
    for (HostTensor* pool : {&c.in.k, &c.in.v}) {
      *pool = check::packed_tensor({pages, 1, 3, pool->shape[3]});
      for (float& value : pool->storage) value = random.normal();
    }
    c.in.page_table = check::packed_tensor({2, 1, 1, 4}, {4, 2, 0, 4, 4, 2, 5, 1});
    c.in.page_table.dtype = DType::i32;
    const GradientAnswer got = c.run();

    // The loss, sum dO O, in double.
    std::vector<double> k(c.in.k.storage.begin(), c.in.k.storage.end()),
        v(c.in.v.storage.begin(), c.in.v.storage.end());
    const std::vector<double> q(c.drawn.q.begin(), c.drawn.q.end());
    const auto loss = [&] {
      double sum = 0;
      for (std::int64_t b = 0; b < 2; ++b) {
        const std::int64_t length = lengths[static_cast<std::size_t>(b)];
        std::vector<double> own_k, own_v;
        for (std::int64_t j = 0; j < length; ++j) {
          const auto row = static_cast<std::int64_t>(c.in.page_table.at(b, 0, 0, j / 3)) * 3 + j % 3;
          own_k.insert(own_k.end(), k.begin() + row * 4, k.begin() + row * 4 + 4);
          own_v.insert(own_v.end(), v.begin() + row * 3, v.begin() + row * 3 + 3);
        }
        for (std::int64_t h = 0; h < 2; ++h)
          for (std::int64_t i = 0; i < 3; ++i) {
            const reference::Head<double> head{{q.data() + (b * 2 + h) * 3 * 4, 4, 1},
                                               {own_k.data(), 4, 1},
                                               {own_v.data(), 3, 1},
                                               3,
                                               length,
                                               4,
                                               3,
                                               effective_scale(p)};
            const auto visible = [&](std::int64_t row) {
              const KeyRange keys = visible_keys(p.causal, p.window, 3, length, row);
              return reference::Keys{keys.begin, keys.end};
            };
            reference::Row<double> row;
            reference::reference_row(head, i, visible, row);
            for (std::int64_t n = 0; n < 3; ++n)
              sum += static_cast<double>(c.dout[static_cast<std::size_t>(((b * 2 + h) * 3 + i) * 3 + n)]) *
                     row.out[static_cast<std::size_t>(n)];
          }
      }
      return sum;
    };
    for (const auto& [values, gradient] : {std::pair{&k, &got.dk}, std::pair{&v, &got.dv}})
      for (std::size_t n = 0; n < values->size(); ++n) {
        constexpr double step = 1e-5;
        double& value = (*values)[n];
        const double before = value;
        value = before + step;
        const double above = loss();
        value = before - step;
        const double below = loss();
        value = before;
        ASSERT_NEAR(gradient->storage[n], (above - below) / (2 * step), 2e-6)
            << text << (gradient == &got.dk ? ": dk" : ": dv") << " element " << n;
      }
    // Page 3 and page 6 are nobody's.
    for (const std::int64_t page : {3, 6})
      for (std::int64_t r = 0; r < 3; ++r) EXPECT_EQ(got.dk.at(page, 0, r, 0), 0) << "page " << page;
  }
}

TEST(CpuBackwardForms, ABrokenTableIsRefusedBeforeAnythingIsWritten) {
  const Case c("b2:hq2:hk1:q3:k40:d8:paged=16:seqused");
  const Plan planned = plan_backward(c.p, cpu_with(1)).value();
  c.run();
  const check::Answer forward = c.forward.value();
  const auto refusal = [&](const std::function<void(HostOperands&)>& change) {
    HostOperands in = c.in;
    change(in);
    const Result<GradientAnswer> answer = check::run_backward_trapped(
        planned, in, forward.o, forward.lse, check::form_dout(c.p, c.dout), in.q, in.k, in.v);
    return answer.ok() ? std::string("accepted") : answer.status().message();
  };
  EXPECT_EQ(refusal([](HostOperands&) {}), "accepted");
  EXPECT_EQ(refusal([](HostOperands& in) { in.kv_lengths.at(1, 0, 0) = 41; }),
            "kv_lengths: batch element 1 must be at least 0 and at most its kv_len 40, got 41");
  EXPECT_NE(refusal([](HostOperands& in) {
              in.kv_lengths.storage = {40, 40};
              in.page_table.at(0, 0, 0, 1) = 99;
            }).find("page_table: row 0, column 1 must be at least 0 and below"),
            std::string::npos);
}

TEST(CpuBackwardForms, TheGatesAcceptThem) {
  for (const char* text :
       {"hq4:hk2:varlen=37/137,1/300,0/5,128/200,9/0:d24:causal", "b4:h2:q3:k1600:d64:seqused:in=hot",
        "b3:hq4:hk2:q40:k700:d64:causal:seqused:paged=16:in=loud:bf16", "b2:h2:q50:k400:d64:paged=19:in=wide",
        "hq2:varlen=40/50,10/70:d16:bias:mask:sink:softcap=20:alibi:dropout=0.2:paged=5:seqused",
        "b2:h2:q1300:k1500:d16:seqused:paged=16:f16"}) {
    const Result<check::GradientReport> report =
        check::check_gradients(problem_of(text), cpu_with(2), {.kernel = "", .threads = 2});
    ASSERT_TRUE(report.ok()) << text << ": " << report.status().message();
    EXPECT_TRUE(report.value().accepted()) << describe(report.value());
  }
}

// A gradient on a page that nobody uses, and one of the wrong key, do not pass the checker.
TEST(CpuBackwardForms, TheCheckerSeesAGradientInTheWrongPlace) {
  const Case c("b2:h2:q3:k70:d16:paged=16");
  const GradientAnswer right = c.run();
  const auto accepted = [&](const GradientAnswer& answer) {
    std::vector<check::KernelReport> reports(1);
    check::judge_gradients(c.p, c.drawn, c.dout, c.forward.value().o, c.forward.value().lse, {true, 3, 70}, 1,
                           {answer}, reports, {});
    return reports[0].accepted();
  };
  EXPECT_TRUE(accepted(right));
  GradientAnswer wrong = right;
  const auto page = static_cast<std::int64_t>(c.in.page_table.at(0, 0, 0, 4));
  ASSERT_EQ(right.dk.at(page, 1, 6, 3), 0) << "the last page holds keys 64 to 69";
  wrong.dk.at(page, 1, 6, 3) = 1e-20f;
  EXPECT_FALSE(accepted(wrong));
  wrong = right;
  std::swap(wrong.dv.at(page, 0, 1, 2), wrong.dv.at(page, 0, 2, 2));
  EXPECT_FALSE(accepted(wrong));
}

}  // namespace
}  // namespace runmax::testing_cpu
