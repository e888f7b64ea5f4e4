// Every planted mistake is called by its name, and by no other, on data that shows it; honest rounding by
// none.
#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <ostream>
#include <set>

#include "evidence_kit.hpp"
#include "inputs/random.hpp"
#include "kernels/lesson/online/host.hpp"
#include "planted.hpp"

namespace runmax::diagnosis {
namespace {

// Data that shows a mistake, and mistakes that do the same to this data.
struct Shown {
  const char* mistake;
  std::vector<const char*> problems;
  Change change = {};
  Bound bound = Bound::lesson;
  bool with_lse = false;
  std::set<std::string_view> twins = {};
};

const std::vector<const char*> usual = {"q261:in=loud", "q320:in=normal", "q167:in=rising", "q515:in=loud"};
// The last tile of 32 keys is not full.
const std::vector<const char*> with_rest = {"q261:in=loud", "q167:in=normal", "q515:in=loud"};

const std::vector<Shown>& table() {
  static const std::vector<Shown> list = {
      {"output-zero", usual},
      {"mean-of-values", usual, {}, Bound::lesson, false, {"uniform-weights"}},
      {"uniform-weights", {"q96:in=loud:causal", "q64:in=normal:causal"}},
      {"best-key-value", usual},
      {"output-constant", usual},
      {"output-not-rescaled", usual},
      {"sum-not-rescaled", usual},
      {"nothing-rescaled", usual},
      {"rescale-inverted", usual},
      {"normalised-per-tile", usual},
      {"stale-maximum", usual},
      {"own-maximum", {"q261:in=loud", "q320:in=normal", "q167:in=falling", "q515:in=loud"}},
      {"no-maximum", {"q200:in=hot", "q96:in=hot"}, {}, Bound::hostile, false, {"own-maximum"}},
      {"no-maximum", {"q200:in=loud"}, scores_moved(150), Bound::hostile},
      // Without scores above 0 the two are the same.
      {"no-maximum",
       {"q200:in=loud"},
       scores_moved(-150),
       Bound::hostile,
       false,
       {"maximum-started-at-zero"}},
      {"maximum-started-at-zero",
       {"q200:in=loud", "q261:in=loud"},
       scores_moved(-150),
       Bound::hostile,
       false,
       {"no-maximum"}},
      {"division-missing", usual},
      {"exponential-base-2", usual, {}, Bound::lesson, false, {"scale-wrong"}},
      {"last-tile-dropped", with_rest},
      {"last-tile-doubled", with_rest},
      {"first-tile-dropped", usual},
      {"keys-left-out", {"q261:in=loud", "q320:in=normal", "q167:in=rising"}},
      {"keys-counted-twice", {"q261:in=loud", "q320:in=normal", "q167:in=rising"}},
      {"padding-counted", with_rest},
      {"values-shifted", usual},
      {"scale-missing", usual},
      {"scale-of-padded-head-dim", {"q261:d40:in=loud", "q320:d80:in=normal"}},
      {"scale-squared", usual},
      {"scale-wrong", usual},
      {"key-transposed", usual},
      {"value-transposed", usual},
      {"heads-swapped", {"hq8:hk4:q70:in=loud", "b2:hq6:hk2:q64:in=normal"}},
      {"rows-swapped", usual},
      {"dimensions-swapped", usual},
      {"causal-off-by-one", {"q96:in=loud:causal", "q64:k100:in=normal:causal"}},
      {"causal-top-left", {"q64:k100:in=normal:causal", "q40:k167:in=loud:causal"}},
      {"causal-missing", {"q96:in=loud:causal", "q100:in=normal:causal"}},
      {"causal-unasked", {"q96:in=loud", "q64:in=normal"}},
      {"causal-whole-tiles", {"q96:in=loud:causal", "q100:in=normal:causal"}},
      {"masked-as-zero", {"q96:in=loud:causal", "q100:in=normal:causal"}},
      // With 11 bits each the two differ only where fp16's exponents end.
      {"precision-fp16", usual, values_times(0x1p-20f)},
      {"precision-tf32", usual},
      {"precision-bf16", usual},
      {"lse-base-2", usual, {}, Bound::lesson, true},
      {"lse-without-maximum", usual, {}, Bound::lesson, true},
  };
  return list;
}

void PrintTo(const Shown& shown, std::ostream* out) { *out << shown.mistake; }

const planted::Planted* planted_named(std::string_view name) {
  for (const planted::Planted& one : planted::all())
    if (one.name == name) return &one;
  return nullptr;
}

void answer(const planted::Planted& one, Drawn& drawn, bool with_lse) {
  const Problem& p = drawn.problem;
  std::vector<float> workspace(static_cast<std::size_t>(p.kv_len), std::numeric_limits<float>::quiet_NaN());
  const int refused = one.attention(drawn.in.q.data(), drawn.in.k.data(), drawn.in.v.data(), drawn.out.data(),
                                    with_lse ? drawn.lse.data() : nullptr, p.batch, p.query_heads, p.kv_heads,
                                    p.query_len, p.kv_len, p.head_dim, static_cast<float>(effective_scale(p)),
                                    p.causal == Causal::none ? 0 : 1, workspace.data(), nullptr);
  ASSERT_EQ(refused, 0) << to_text(p) << " is outside of the claim of " << one.name;
}

std::string fits_text(const Diagnosis& diagnosis) {
  std::string text = diagnosis.pattern;
  for (const Fit& fit : diagnosis.fits) text += "\n  " + fit.text();
  return text;
}

TEST(PlantedMistakes, EachHasAFileAndDataThatShowsIt) {
  std::set<std::string_view> names;
  for (const Mistake& mistake : mistakes()) {
    EXPECT_TRUE(names.insert(mistake.name).second) << mistake.name << " is there twice";
    EXPECT_NE(planted_named(mistake.name), nullptr) << "no apps/judge/faults/cpu/" << mistake.name << ".cpp";
    EXPECT_EQ(find_mistake(mistake.name), &mistake);
    const bool shown = std::any_of(table().begin(), table().end(),
                                   [&](const Shown& one) { return one.mistake == mistake.name; });
    EXPECT_TRUE(shown) << "no data shows " << mistake.name;
  }
  for (const planted::Planted& one : planted::all())
    EXPECT_TRUE(names.count(one.name)) << one.name << ".cpp plants a mistake without a name";
}

class Names : public testing::TestWithParam<Shown> {};

// The mistake that is named, and those that cannot be told from it.
std::set<std::string_view> possible(const Diagnosis& diagnosis) {
  std::set<std::string_view> names(diagnosis.also_possible.begin(), diagnosis.also_possible.end());
  if (diagnosis.named()) names.insert(diagnosis.named()->mistake->name);
  return names;
}

TEST_P(Names, TheMistakeAndNoOther) {
  const Shown& shown = GetParam();
  const planted::Planted* one = planted_named(shown.mistake);
  ASSERT_NE(one, nullptr);
  for (const std::uint64_t seed : {1, 2, 3}) {
    std::vector<Drawn> calls;
    std::vector<Evidence> evidence;
    calls.reserve(shown.problems.size());
    for (const char* problem : shown.problems) {
      Drawn& call = calls.emplace_back(problem, seed, shown.change, shown.bound);
      answer(*one, call, shown.with_lse);
      evidence.push_back(call.evidence(shown.with_lse));
      if (seed != 1) continue;
      // One call shows it, though another mistake may come to the same on it.
      const Diagnosis diagnosis = diagnose(evidence.back());
      SCOPED_TRACE(to_text(call.problem));
      ASSERT_TRUE(diagnosis.anything_wrong);
      EXPECT_TRUE(possible(diagnosis).count(shown.mistake)) << fits_text(diagnosis);
    }
    // All together name it alone.
    const Diagnosis diagnosis = diagnose(evidence);
    ASSERT_NE(diagnosis.named(), nullptr) << fits_text(diagnosis);
    if (shown.twins.empty()) {
      EXPECT_EQ(diagnosis.named()->mistake->name, shown.mistake) << fits_text(diagnosis);
    }
    for (const std::string_view name : possible(diagnosis))
      EXPECT_TRUE(name == shown.mistake || shown.twins.count(name)) << name << " too\n"
                                                                    << fits_text(diagnosis);
    for (const Fit& fit : diagnosis.fits)
      if (fit.mistake->name != shown.mistake && !shown.twins.count(fit.mistake->name)) {
        EXPECT_LT(fit.explained, 0.98) << fits_text(diagnosis);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Planted, Names, testing::ValuesIn(table()), [](const auto& test) {
  std::string name = test.param.mistake;
  std::replace(name.begin(), name.end(), '-', '_');
  return name + "_" + std::to_string(test.index);
});

// Every step in FP32, in tiles of 32: wrong by rounding alone.
void answer_honestly(Drawn& drawn) {
  const Problem& p = drawn.problem;
  lesson::HostHead head;
  head.q = {drawn.in.q.data(), p.head_dim, 1};
  head.k = {drawn.in.k.data(), p.head_dim, 1};
  head.v = {drawn.in.v.data(), p.value_dim, 1};
  head.o = {drawn.out.data(), p.value_dim, 1};
  head.lse = drawn.lse.data();
  head.query_len = p.query_len;
  head.kv_len = p.kv_len;
  head.head_dim = p.head_dim;
  head.value_dim = p.value_dim;
  head.scale = static_cast<float>(effective_scale(p));
  lesson::online_host_rows(head, 0, p.query_len, [&](std::int64_t i) {
    const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
    return lesson::Keys{keys.begin, keys.end};
  });
}

TEST(HonestRounding, IsRight) {
  for (const char* problem : {"q261:in=loud", "q320:in=normal", "q40:k1023:in=rising", "q64:k100:causal"})
    for (const std::uint64_t seed : {1, 2, 3}) {
      Drawn drawn(problem, seed);
      answer_honestly(drawn);
      const Diagnosis diagnosis = diagnose(drawn.evidence(true));
      EXPECT_FALSE(diagnosis.anything_wrong) << problem << ": " << diagnosis.text();
      EXPECT_TRUE(diagnosis.fits.empty());
    }
}

TEST(HonestCandidates, AreRight) {
  EXPECT_GE(planted::honest().size(), 4u);
  for (const planted::Planted& one : planted::honest())
    for (const char* problem : {"q256:in=loud", "q320:in=normal", "q160:in=rising"}) {
      Drawn drawn(problem, 1);
      answer(one, drawn, false);
      const Diagnosis diagnosis = diagnose(drawn.evidence());
      EXPECT_FALSE(diagnosis.anything_wrong) << one.name << " on " << problem << ": " << diagnosis.text();
    }
}

TEST(HonestRounding, HasNoNameWhereItBreaksABoundThatIsTooNarrow) {
  // Logits of several hundred cost FP32 more than the lesson gate allows.
  for (const char* problem : {"q261:in=hot", "q64:k1000:in=hot", "q320:in=hot:causal"})
    for (const std::uint64_t seed : {1, 2, 3}) {
      Drawn drawn(problem, seed);
      answer_honestly(drawn);
      const Diagnosis diagnosis = diagnose(drawn.evidence());
      ASSERT_TRUE(diagnosis.anything_wrong) << problem;
      EXPECT_EQ(diagnosis.named(), nullptr) << problem << "\n" << fits_text(diagnosis);
    }
}

TEST(Evidence, OfARightCallRulesAMistakeOut) {
  // All scores lie far below 0: no maximum, or one that starts at 0, come to the same.
  Drawn low("q200:in=loud", 1, scores_moved(-150), Bound::hostile);
  answer(*planted_named("maximum-started-at-zero"), low, false);
  const Diagnosis alone = diagnose(low.evidence());
  ASSERT_NE(alone.named(), nullptr);
  EXPECT_EQ(possible(alone), (std::set<std::string_view>{"no-maximum", "maximum-started-at-zero"}));

  // Far above 0 the one that starts at 0 is right.
  Drawn high("q200:in=loud", 1, scores_moved(150), Bound::hostile);
  answer(*planted_named("maximum-started-at-zero"), high, false);
  const Diagnosis both = diagnose({low.evidence(), high.evidence()});
  ASSERT_NE(both.named(), nullptr) << fits_text(both);
  EXPECT_EQ(possible(both), (std::set<std::string_view>{"maximum-started-at-zero"})) << fits_text(both);
}

TEST(Evidence, KeyTileIsFoundOrTakenFromTheClaim) {
  Drawn drawn("q300:in=loud", 1);
  answer(*planted_named("output-not-rescaled"), drawn, false);
  Evidence evidence = drawn.evidence();
  Diagnosis diagnosis = diagnose(evidence);
  ASSERT_NE(diagnosis.named(), nullptr);
  EXPECT_EQ(diagnosis.named()->parameters, "key tile 32");
  EXPECT_EQ(diagnosis.text().substr(0, diagnosis.text().find('\n')),
            "output-not-rescaled: the output is not rescaled when the maximum moves");

  // A width that is no usual one is known only if it is claimed.
  Drawn odd("q300:in=normal", 1);
  evidence = odd.evidence();
  evidence.key_tile = 48;
  const std::vector<float> wrong = answer_with(*find_mistake("output-not-rescaled"), evidence);
  ASSERT_FALSE(wrong.empty());
  odd.out = wrong;
  diagnosis = diagnose(evidence);
  ASSERT_NE(diagnosis.named(), nullptr);
  EXPECT_EQ(diagnosis.named()->parameters, "key tile 48");
}

TEST(Evidence, OfSomeDimensionsIsComparedInThese) {
  // A lane that holds two dimensions and rescales one of them.
  Drawn drawn("q150:in=loud", 1);
  answer(*planted_named("output-not-rescaled"), drawn, false);
  const std::vector<float> wrong = drawn.out;
  drawn.answer_rightly();
  for (std::int64_t r = 0; r < 150; ++r)
    std::copy_n(wrong.begin() + r * 64 + 32, 32, drawn.out.begin() + r * 64 + 32);
  const Diagnosis diagnosis = diagnose(drawn.evidence());
  ASSERT_NE(diagnosis.named(), nullptr) << fits_text(diagnosis);
  EXPECT_EQ(diagnosis.named()->mistake->name, "output-not-rescaled");
  EXPECT_EQ(diagnosis.named()->parameters, "key tile 32, dimensions 32..63 only");
}

TEST(Evidence, OfKeysSaysWhich) {
  Drawn drawn("q150:in=normal", 1);
  answer(*planted_named("keys-left-out"), drawn, false);
  const Diagnosis diagnosis = diagnose(drawn.evidence());
  ASSERT_NE(diagnosis.named(), nullptr) << fits_text(diagnosis);
  EXPECT_EQ(diagnosis.named()->mistake->name, "keys-left-out");
  EXPECT_EQ(diagnosis.named()->parameters, "keys 16..31, 64..79, 112..127");
}

TEST(AnswerWith, IsTheMistakeThatItIsAskedFor) {
  const std::set<std::string_view> untold{"output-constant",    "scale-wrong", "keys-left-out",
                                          "keys-counted-twice", "lse-base-2",  "lse-without-maximum"};
  for (const Mistake& mistake : mistakes()) {
    const std::string_view name = mistake.name;
    const bool causal =
        name.substr(0, 7) == "causal-" || name == "masked-as-zero" || name == "uniform-weights";
    const bool far = name == "no-maximum" || name == "maximum-started-at-zero";
    const char* problem = name == "heads-swapped"              ? "hq4:hk2:q40:k70"
                          : name == "scale-of-padded-head-dim" ? "q40:k70:d40"
                          : name == "causal-unasked"           ? "q70:k70"
                          : causal                             ? "q40:k70:causal"
                                                               : "q40:k261";
    Drawn drawn(far ? "q40:k70:in=loud" : problem, 5, far ? scores_moved(-150) : Change());
    const std::vector<float> wrong = answer_with(mistake, drawn.evidence());
    if (untold.count(name)) {
      EXPECT_TRUE(wrong.empty()) << name;
      continue;
    }
    ASSERT_EQ(wrong.size(), drawn.out.size()) << name;
    drawn.out = wrong;
    const Diagnosis diagnosis = diagnose(drawn.evidence());
    EXPECT_TRUE(possible(diagnosis).count(name)) << name << "\n" << fits_text(diagnosis);
  }
}

TEST(AnswerWith, ChangesNothingWhereNothingGoesWrong) {
  const Drawn drawn("q40:k64:in=falling", 1);
  EXPECT_TRUE(answer_with(*find_mistake("output-not-rescaled"), drawn.evidence()).empty());
  EXPECT_TRUE(answer_with(*find_mistake("heads-swapped"), drawn.evidence()).empty());
  EXPECT_TRUE(answer_with(*find_mistake("causal-top-left"), drawn.evidence()).empty());
}

TEST(Cost, OfACallOf1024RowsIsBelowTwoSeconds) {
  Drawn drawn("q1024:k1024:in=loud", 1);
  // Noise, so that everything is tried.
  inputs::Random random(7);
  for (float& value : drawn.out) value = random.normal();
  const std::clock_t start = std::clock();
  const Diagnosis diagnosis = diagnose(drawn.evidence());
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(diagnosis.named(), nullptr) << fits_text(diagnosis);
  RecordProperty("milliseconds", static_cast<int>(seconds * 1000));
  std::printf("%.2f s of processor time\n", seconds);
  EXPECT_LT(seconds, 2.0);
}

}  // namespace
}  // namespace runmax::diagnosis
