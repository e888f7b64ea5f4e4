// What the gradient gate catches: gradients with one planted fault each, and trivial answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "gate/gradient_gate.hpp"
#include "inputs/draw.hpp"
#include "inputs/draw_dout.hpp"
#include "runmax/problem.hpp"

namespace runmax {
namespace {

enum class Fault {
  none,
  no_delta,
  delta_of_the_next_row,
  delta_of_one_channel,
  dq_without_scale,
  dk_without_scale,
  scale_twice,
  weights_not_transposed,
  weights_for_score_gradients,
  score_gradients_for_weights,
  key_for_query,
  no_normalisation,
  base_two,
  one_key_too_many,
  one_key_too_few,
  top_left,
  last_keys_dropped,
  last_rows_dropped,
  one_head_of_the_group,
  dq_of_the_last_block_alone,
  dout_of_the_next_row,
  weights_in_half,
};

struct Drawn {
  Problem p;
  inputs::HostInputs in;
  std::vector<float> dout;
};

Drawn draw(const std::string& text) {
  Result<Problem> parsed = parse_problem(text);
  EXPECT_TRUE(parsed.ok()) << text;
  const Problem p = parsed.value();
  return {p, inputs::draw(p), inputs::draw_dout(p)};
}

struct Got {
  std::vector<float> dq, dk, dv;
};

float half(double x) {
  // 11 bits.
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11));
}

// The definition in double, pair by pair, with the fault.
Got compute(const Drawn& d, Fault fault) {
  const Problem& p = d.p;
  const std::int64_t group = p.query_heads / p.kv_heads, D = p.head_dim, C = p.value_dim;
  const double scale = effective_scale(p);
  const auto cast = [](const std::vector<double>& from) {
    return std::vector<float>(from.begin(), from.end());
  };
  std::vector<double> dq(d.in.q.size()), dk(d.in.k.size()), dv(d.in.v.size());
  for (std::int64_t h = 0; h < p.query_heads; ++h) {
    const std::int64_t kv = h / group;
    const float* q = d.in.q.data() + h * p.query_len * D;
    const float* k = d.in.k.data() + kv * p.kv_len * D;
    const float* v = d.in.v.data() + kv * p.kv_len * C;
    const float* dout = d.dout.data() + h * p.query_len * C;
    const auto at = [](const float* data, std::int64_t row, std::int64_t dim, std::int64_t c) {
      return static_cast<double>(data[row * dim + c]);
    };
    // Whole matrices here: this is a test of a few hundred rows.
    std::vector<std::vector<double>> weight(static_cast<std::size_t>(p.query_len));
    std::vector<double> delta(static_cast<std::size_t>(p.query_len));
    std::vector<KeyRange> range(static_cast<std::size_t>(p.query_len));
    const auto dot = [&](const float* a, std::int64_t i, const float* b, std::int64_t j, std::int64_t dim) {
      double sum = 0;
      for (std::int64_t c = 0; c < dim; ++c) sum += at(a, i, dim, c) * at(b, j, dim, c);
      return sum;
    };
    for (std::int64_t i = 0; i < p.query_len; ++i) {
      const auto row = static_cast<std::size_t>(i);
      KeyRange keys =
          visible_keys(fault == Fault::top_left && p.causal != Causal::none ? Causal::top_left : p.causal,
                       p.window, p.query_len, p.kv_len, i);
      if (fault == Fault::one_key_too_many && p.causal != Causal::none)
        keys.end = std::min(keys.end + 1, p.kv_len);
      if (fault == Fault::one_key_too_few && p.causal != Causal::none && keys.end > keys.begin + 1)
        --keys.end;
      if (fault == Fault::last_keys_dropped) keys.end = std::min(keys.end, p.kv_len / 16 * 16);
      range[row] = keys;
      weight[row].assign(static_cast<std::size_t>(p.kv_len), 0);
      // Softmax over the right keys, as saved in LSE and O; the fault is in backward's view of them.
      const KeyRange right = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
      double max = -std::numeric_limits<double>::infinity(), sum = 0;
      for (std::int64_t j = right.begin; j < right.end; ++j) max = std::max(max, scale * dot(q, i, k, j, D));
      for (std::int64_t j = right.begin; j < right.end; ++j)
        sum += std::exp(scale * dot(q, i, k, j, D) - max);
      for (std::int64_t j = keys.begin; j < keys.end; ++j) {
        double w = std::exp(scale * dot(q, i, k, j, D) - max) / sum;
        if (fault == Fault::no_normalisation) w *= sum;
        if (fault == Fault::base_two) w = std::exp2(scale * dot(q, i, k, j, D) - (max + std::log(sum)));
        if (fault == Fault::weights_in_half) w = half(w);
        weight[row][static_cast<std::size_t>(j)] = w;
      }
      for (std::int64_t j = right.begin; j < right.end; ++j) {
        const double w = std::exp(scale * dot(q, i, k, j, D) - max) / sum;
        for (std::int64_t c = 0; c < C; ++c) {
          if (fault == Fault::delta_of_one_channel && c > 0) continue;
          delta[row] += w * at(v, j, C, c) * at(dout, i, C, c);
        }
      }
    }
    const std::int64_t rows = fault == Fault::last_rows_dropped ? p.query_len / 16 * 16 : p.query_len;
    if (fault == Fault::one_head_of_the_group && h % group == group - 1 && group > 1) {
      std::fill(dk.begin() + kv * p.kv_len * D, dk.begin() + (kv + 1) * p.kv_len * D, 0.0);
      std::fill(dv.begin() + kv * p.kv_len * C, dv.begin() + (kv + 1) * p.kv_len * C, 0.0);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      const auto row = static_cast<std::size_t>(i);
      const std::int64_t next = (i + 1) % p.query_len;
      const std::int64_t of_dout = fault == Fault::dout_of_the_next_row ? next : i;
      for (std::int64_t j = range[row].begin; j < range[row].end; ++j) {
        const double w = weight[row][static_cast<std::size_t>(j)];
        double shift = delta[fault == Fault::delta_of_the_next_row ? static_cast<std::size_t>(next) : row];
        if (fault == Fault::no_delta) shift = 0;
        double ds = w * (dot(dout, of_dout, v, j, C) - shift);
        if (fault == Fault::weights_for_score_gradients) ds = w;
        const double all = fault == Fault::scale_twice ? scale * scale : scale;
        const bool into_dq = fault != Fault::dq_of_the_last_block_alone || j >= (p.kv_len - 1) / 64 * 64;
        for (std::int64_t c = 0; c < D; ++c) {
          if (into_dq)
            dq[static_cast<std::size_t>((h * p.query_len + i) * D + c)] +=
                (fault == Fault::dq_without_scale ? 1 : all) * ds * at(k, j, D, c);
          dk[static_cast<std::size_t>((kv * p.kv_len + j) * D + c)] +=
              (fault == Fault::dk_without_scale ? 1 : all) * ds *
              (fault == Fault::key_for_query ? at(k, j, D, c) : at(q, i, D, c));
        }
        double of_v = w;
        if (fault == Fault::score_gradients_for_weights) of_v = ds;
        if (fault == Fault::weights_not_transposed && j < p.query_len && i < p.kv_len)
          of_v = weight[static_cast<std::size_t>(j)][static_cast<std::size_t>(i)];
        for (std::int64_t c = 0; c < C; ++c)
          dv[static_cast<std::size_t>((kv * p.kv_len + j) * C + c)] += of_v * at(dout, of_dout, C, c);
      }
    }
  }
  return {cast(dq), cast(dk), cast(dv)};
}

// The gates of dQ, dK and dV.
struct Verdicts {
  gate::Verdict dq, dk, dv;
  bool passed() const { return dq.passed && dk.passed && dv.passed; }
};

Verdicts judge(const Drawn& d, const Got& got) {
  const Problem& p = d.p;
  const std::int64_t group = p.query_heads / p.kv_heads, terms = std::max(p.kv_len, group * p.query_len);
  gate::GradientGate dq("dq", terms), dk("dk", terms), dv("dv", terms);
  for (std::int64_t kv = 0; kv < p.kv_heads; ++kv) {
    reference::KeyGradients<double> keys(p.kv_len, p.head_dim, p.value_dim);
    for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      const reference::Head<float> head{{d.in.q.data() + h * p.query_len * p.head_dim, p.head_dim, 1},
                                        {d.in.k.data() + kv * p.kv_len * p.head_dim, p.head_dim, 1},
                                        {d.in.v.data() + kv * p.kv_len * p.value_dim, p.value_dim, 1},
                                        p.query_len,
                                        p.kv_len,
                                        p.head_dim,
                                        p.value_dim,
                                        effective_scale(p)};
      reference::GradientReference<double> reference(head);
      const reference::Matrix<float> dout{d.dout.data() + h * p.query_len * p.value_dim, p.value_dim, 1};
      for (std::int64_t i = 0; i < p.query_len; ++i) {
        const KeyRange range = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
        reference::RowGradient<double> row;
        reference.row(head, dout, i, {range.begin, range.end}, row, &keys);
        dq.add_row(0, h, i, row, got.dq.data() + (h * p.query_len + i) * p.head_dim, 1);
      }
    }
    for (std::int64_t j = 0; j < p.kv_len; ++j) {
      const auto head_dim = static_cast<std::size_t>(p.head_dim),
                 value_dim = static_cast<std::size_t>(p.value_dim);
      const auto own = static_cast<std::size_t>(j);
      dk.add_key(0, kv, j, keys.dk, keys.dk_magnitude, keys.dk_score_magnitude, own * head_dim, head_dim,
                 got.dk.data() + (kv * p.kv_len + j) * p.head_dim, 1);
      dv.add_key(0, kv, j, keys.dv, keys.dv_magnitude, keys.dv_score_magnitude, own * value_dim, value_dim,
                 got.dv.data() + (kv * p.kv_len + j) * p.value_dim, 1);
    }
  }
  return {dq.verdict(), dk.verdict(), dv.verdict()};
}

const char* const problems[] = {"q70:d32", "hq4:hk2:q70:k100:d32:causal", "q70:k100:d32:in=loud",
                                "hq2:hk1:q70:k70:d32:dv16:window=20,3"};

struct Mutant {
  Fault fault;
  const char* name;
  std::set<int> caught_by;  // indices of problems
};

// Which input catches which fault.
const Mutant mutants[] = {
    {Fault::no_delta, "no_delta", {0, 1, 2, 3}},
    {Fault::delta_of_the_next_row, "delta_of_the_next_row", {0, 1, 2, 3}},
    {Fault::delta_of_one_channel, "delta_of_one_channel", {0, 1, 2, 3}},
    {Fault::dq_without_scale, "dq_without_scale", {0, 1, 2, 3}},
    {Fault::dk_without_scale, "dk_without_scale", {0, 1, 2, 3}},
    {Fault::scale_twice, "scale_twice", {0, 1, 2, 3}},
    {Fault::weights_not_transposed, "weights_not_transposed", {0, 1, 2, 3}},
    {Fault::weights_for_score_gradients, "weights_for_score_gradients", {0, 1, 2, 3}},
    {Fault::score_gradients_for_weights, "score_gradients_for_weights", {0, 1, 2, 3}},
    {Fault::key_for_query, "key_for_query", {0, 1, 2, 3}},
    {Fault::no_normalisation, "no_normalisation", {0, 1, 2, 3}},
    {Fault::base_two, "base_two", {0, 1, 2, 3}},
    {Fault::one_key_too_many, "one_key_too_many", {1}},
    {Fault::one_key_too_few, "one_key_too_few", {1}},
    {Fault::top_left, "top_left", {1}},
    {Fault::last_keys_dropped, "last_keys_dropped", {0, 1, 2, 3}},
    {Fault::last_rows_dropped, "last_rows_dropped", {0, 1, 2, 3}},
    {Fault::one_head_of_the_group, "one_head_of_the_group", {1, 3}},
    {Fault::dq_of_the_last_block_alone, "dq_of_the_last_block_alone", {0, 1, 2, 3}},
    {Fault::dout_of_the_next_row, "dout_of_the_next_row", {0, 1, 2, 3}},
    {Fault::weights_in_half, "weights_in_half", {0, 1, 2, 3}},
};

TEST(GradientGateMutants, EachFaultFailsWhereItShowsAndOnlyThere) {
  for (int n = 0; n < 4; ++n) {
    const Drawn d = draw(problems[n]);
    EXPECT_TRUE(judge(d, compute(d, Fault::none)).passed()) << problems[n];
    for (const Mutant& mutant : mutants)
      EXPECT_EQ(!judge(d, compute(d, mutant.fault)).passed(), mutant.caught_by.count(n) == 1)
          << mutant.name << " on " << problems[n];
  }
}

TEST(GradientGateMutants, OneElementTenPercentOffIsCaughtInEachGradient) {
  const Drawn d = draw(problems[1]);
  const Got right = compute(d, Fault::none);
  for (int which = 0; which < 3; ++which) {
    Got wrong = right;
    std::vector<float>& array = which == 0 ? wrong.dq : which == 1 ? wrong.dk : wrong.dv;
    float& element = array[array.size() / 3];
    element *= 1.1f;
    const Verdicts verdicts = judge(d, wrong);
    EXPECT_EQ(verdicts.dq.passed, which != 0);
    EXPECT_EQ(verdicts.dk.passed, which != 1);
    EXPECT_EQ(verdicts.dv.passed, which != 2);
    const gate::Verdict& failed = which == 0 ? verdicts.dq : which == 1 ? verdicts.dk : verdicts.dv;
    EXPECT_EQ(failed.failed, 1);
    const std::string text = gate::describe(failed, "gradient gate", "rule", "again");
    EXPECT_NE(text.find(which == 0 ? "dq[" : which == 1 ? "dk[" : "dv["), std::string::npos) << text;
    EXPECT_NE(text.find(which == 0 ? "query row" : "(key "), std::string::npos) << text;
  }
}

// Zeros pass for no gradient of any kind of data for which it is not itself zero.
TEST(GradientGatePower, TrivialAnswersFailOnEveryKind) {
  for (const char* kind :
       {"normal", "loud", "onesign", "wide", "equal", "needle", "rising", "falling", "hot"}) {
    const Drawn d = draw("q96:k160:d32:in=" + std::string(kind));
    const Got right = compute(d, Fault::none);
    const auto zeros = [](const std::vector<float>& like) { return std::vector<float>(like.size(), 0.0f); };
    const Verdicts verdicts = judge(d, {zeros(right.dq), zeros(right.dk), zeros(right.dv)});
    EXPECT_FALSE(verdicts.dq.passed) << kind;
    // Q is 0 there, and so is dK.
    EXPECT_EQ(verdicts.dk.passed, std::string(kind) == "equal") << kind;
    EXPECT_FALSE(verdicts.dv.passed) << kind;
    EXPECT_TRUE(judge(d, right).passed()) << kind;
  }
}

TEST(GradientGatePower, NaNNeverPassesAndNothingComparedIsNoPass) {
  const Drawn d = draw(problems[0]);
  Got wrong = compute(d, Fault::none);
  wrong.dk[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(judge(d, wrong).dk.passed);
  EXPECT_FALSE(judge(d, wrong).dk.finite);
  EXPECT_FALSE(gate::GradientGate("dq", 1).verdict().passed);
}

}  // namespace
}  // namespace runmax
