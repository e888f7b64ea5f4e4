// The text form of a problem and its rules.
#include <gtest/gtest.h>

#include "runmax/problem.hpp"

namespace runmax {
namespace {

std::string error_of(const std::string& text) {
  Result<Problem> parsed = parse_problem(text);
  return parsed.ok() ? "accepted" : parsed.status().message();
}

TEST(ProblemText, DefaultsFollowTheQuerySide) {
  Result<Problem> parsed = parse_problem("q4096:d80");
  ASSERT_TRUE(parsed.ok());
  const Problem& p = parsed.value();
  EXPECT_EQ(p.query_len, 4096);
  EXPECT_EQ(p.kv_len, 4096);
  EXPECT_EQ(p.head_dim, 80);
  EXPECT_EQ(p.value_dim, 80);
  EXPECT_EQ(p.batch, 1);
  EXPECT_EQ(p.kv_heads, 1);
  EXPECT_EQ(p.dtype, DType::f32);
}

TEST(ProblemText, EveryFieldSurvivesPrintingAndParsing) {
  for (const char* text :
       {"q4096:d64", "b2:hq32:hk8:q1024:d128:causal", "q1:k4:d1", "b3:h4:q5:k7:d3:dv9:bf16:causal=top_left",
        "q8:d64:window=128,0", "q8:d64:window=-1,4", "q8:d64:softcap=30:alibi:sink:mask:bias", "q8:d64:e4m3",
        "q8:d64:i8", "q8:d64:seqused", "q8:d64:f64", "q8:d64:f16", "q8:d64:ieee", "q8:d64:tf32",
        "varlen=3/5,0,2/0:d64", "q8:d64:paged=16:seed=7",
        "q8:d64:scale=0.125:dropout=0.1:batch_invariant:in=loud:seed=18446744073709551615", "q0:d0",
        "b0:q1:d64"}) {
    Result<Problem> parsed = parse_problem(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status().message();
    EXPECT_EQ(to_text(parsed.value()), text);
    Result<Problem> again = parse_problem(to_text(parsed.value()));
    ASSERT_TRUE(again.ok());
    EXPECT_TRUE(again.value() == parsed.value()) << text;
  }
}

TEST(ProblemText, OrderIsFree) {
  EXPECT_EQ(to_text(parse_problem("causal:d64:k9:q8:hk2:hq6:b2").value()), "b2:hq6:hk2:q8:k9:d64:causal");
}

TEST(ProblemText, EveryInputKindHasAName) {
  for (const char* kind :
       {"normal", "loud", "onesign", "wide", "equal", "needle", "rising", "falling", "hot"})
    EXPECT_EQ(error_of(std::string("q8:d64:in=") + kind), "accepted");
}

TEST(ProblemText, ErrorsNameFieldRuleAndValue) {
  EXPECT_EQ(error_of("q8:foo"),
            "problem field 'foo': unknown; fields look like b2:hq32:hk8:q1024:k1024:d128:f32:causal");
  EXPECT_EQ(error_of("q8:q9"), "problem field 'q9': 'q' is given twice");
  EXPECT_EQ(error_of("d64"), "problem: the query length is missing (q1024)");
  EXPECT_EQ(error_of("q8x"), "problem field 'q8x': needs an integer of 64 bits, got '8x'");
  EXPECT_EQ(error_of("q99999999999999999999"),
            "problem field 'q99999999999999999999': needs an integer of 64 bits, got '99999999999999999999'");
  EXPECT_EQ(error_of("q8::d64"), "problem field '': empty; write fields separated by single ':'");
  EXPECT_EQ(error_of(""), "problem field '': empty; write fields separated by single ':'");
  EXPECT_EQ(error_of("q8:softcap=nan"), "problem field 'softcap=nan': needs a finite number, got 'nan'");
  EXPECT_EQ(error_of("q8:window=3"), "problem field 'window=3': needs two integers, window=LEFT,RIGHT");
  EXPECT_EQ(error_of("q8:f32:f16"), "problem field 'f16': the element type is given twice");
  EXPECT_EQ(error_of("q8:causal:causal=top_left"),
            "problem field 'causal=top_left': 'causal' is given twice");
  EXPECT_EQ(error_of("q8:paged=0"), "problem field 'paged=0': page size must be at least 1, got 0");
  EXPECT_EQ(error_of("b3:varlen=1,2"), "problem field 'varlen': holds 2 sequences, but b is 3");
}

TEST(ProblemText, AnErrorIsOneShortLineWhateverTheTextHolds) {
  EXPECT_EQ(error_of("q8:a\nb\x1b"),
            "problem field 'a?b?': unknown; fields look like b2:hq32:hk8:q1024:k1024:d128:f32:causal");
  EXPECT_LT(error_of("q8:in=" + std::string(100000, 'x')).size(), 300u);
}

TEST(ProblemRules, BrokenRulesNameArgumentRuleAndValue) {
  EXPECT_EQ(error_of("hq12:hk5:q8"), "kv_heads: must divide query_heads (query_heads=12, kv_heads=5)");
  EXPECT_EQ(error_of("hq12:hk0:q8"), "kv_heads: must divide query_heads (query_heads=12, kv_heads=0)");
  EXPECT_EQ(error_of("q-1"), "query_len: must be at least 0, got -1");
  EXPECT_EQ(error_of("q8:window=-2,0"), "window: distances are at least 0, or -1 for unbounded, got -2,0");
  EXPECT_EQ(error_of("q8:dropout=1"), "dropout: must be in [0, 1), got 1.000000");
  EXPECT_EQ(error_of("q8:f16:ieee"), "arithmetic: ieee and tf32 are modes of f32, not of f16");
  EXPECT_EQ(error_of("b1099511627776:q1099511627776"),
            "shape: each tensor must hold fewer than 2^60 elements");
  // An empty tensor's other sizes are bounded too, or head_dim + value_dim overflows.
  EXPECT_EQ(error_of("q0:d7188888888888829554"), "shape: each tensor must hold fewer than 2^60 elements");
}

}  // namespace
}  // namespace runmax
