// What is said about errors that no known mistake explains.
#include <gtest/gtest.h>

#include "evidence_kit.hpp"
#include "inputs/random.hpp"
#include "judge/diagnosis/pattern.hpp"

namespace runmax::diagnosis {
namespace {

TEST(Indices, AreSaidAsRangesStepsAndRests) {
  EXPECT_EQ(indices_text({0, 1, 2}, 3), "all");
  EXPECT_EQ(indices_text({1, 3, 5, 7}, 8), "every 2nd from 1");
  EXPECT_EQ(indices_text({64, 65, 66}, 128), "64..66");
  EXPECT_EQ(indices_text({0, 3, 4, 9}, 20), "0, 3, 4, 9");
  EXPECT_EQ(indices_text({0, 2, 5, 7, 10, 14}, 20), "0, 2, 5, 7 and 2 others");
}

// A right answer, spoilt by spoil(row, dimension, value).
template <class Spoil>
Diagnosis diagnosis_of(Drawn& drawn, Spoil spoil) {
  drawn.answer_rightly();
  for (std::size_t r = 0; r < drawn.want.size(); ++r)
    for (std::int64_t c = 0; c < drawn.problem.value_dim; ++c) {
      float& value = drawn.row(static_cast<std::int64_t>(r))[c];
      value = spoil(static_cast<std::int64_t>(r), c, value);
    }
  return diagnose(drawn.evidence());
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A value that has nothing to do with the right one.
float noise(std::int64_t r, std::int64_t c) {
  inputs::Random random(static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(c));
  return random.normal();
}

TEST(Pattern, OfNothingIsNothing) {
  Drawn drawn("q64:k100");
  const Diagnosis diagnosis =
      diagnosis_of(drawn, [](std::int64_t, std::int64_t, float value) { return value; });
  EXPECT_FALSE(diagnosis.anything_wrong);
  EXPECT_EQ(diagnosis.named(), nullptr);
  EXPECT_EQ(diagnosis.text(), "nothing is wrong");
}

TEST(Pattern, OfTheLastRowsIsALastTile) {
  Drawn drawn("q192:k100");
  const Diagnosis diagnosis = diagnosis_of(
      drawn, [](std::int64_t r, std::int64_t c, float value) { return r >= 128 ? noise(r, c) : value; });
  EXPECT_EQ(diagnosis.named(), nullptr);
  EXPECT_TRUE(contains(diagnosis.pattern, "4096 of 12288 elements are wrong")) << diagnosis.pattern;
  EXPECT_TRUE(contains(diagnosis.pattern, "rows 128..191 (the last tile of 64)")) << diagnosis.pattern;
  EXPECT_TRUE(contains(diagnosis.pattern, "dimensions all")) << diagnosis.pattern;

  const Diagnosis rest = diagnosis_of(
      drawn, [](std::int64_t r, std::int64_t c, float value) { return r >= 160 ? noise(r, c) : value; });
  EXPECT_TRUE(contains(rest.pattern, "rows 160..191 (the last tile of 32)")) << rest.pattern;
}

TEST(Pattern, OfAPartOfATileIsALeftover) {
  Drawn drawn("q150:k100");
  const Diagnosis diagnosis = diagnosis_of(
      drawn, [](std::int64_t r, std::int64_t c, float value) { return r >= 128 ? noise(r, c) : value; });
  EXPECT_TRUE(contains(diagnosis.pattern, "rows 128..149 (what is left over after tiles of 128)"))
      << diagnosis.pattern;
}

TEST(Pattern, OfDimensionsIsSaidAsAStep) {
  Drawn drawn("q64:k100");
  const Diagnosis diagnosis = diagnosis_of(
      drawn, [](std::int64_t r, std::int64_t c, float value) { return c % 4 == 1 ? noise(r, c) : value; });
  EXPECT_EQ(diagnosis.named(), nullptr);
  EXPECT_TRUE(contains(diagnosis.pattern, "dimensions every 4th from 1")) << diagnosis.pattern;
  const std::string picture = diagnosis.map.text();
  EXPECT_TRUE(contains(picture, ".#..") || contains(picture, ".+..")) << picture;
}

TEST(Pattern, OfHeadsNamesTheHeads) {
  Drawn drawn("b2:h4:q20:k50");
  const Diagnosis diagnosis = diagnosis_of(
      drawn, [](std::int64_t r, std::int64_t c, float value) { return r / 20 == 6 ? noise(r, c) : value; });
  EXPECT_TRUE(contains(diagnosis.pattern, "batch elements 1, heads 2, rows all")) << diagnosis.pattern;
}

TEST(Pattern, OfOneFactorGivesTheFactor) {
  Drawn drawn("q64:k100");
  const Diagnosis diagnosis =
      diagnosis_of(drawn, [](std::int64_t, std::int64_t, float value) { return 1.5f * value; });
  EXPECT_EQ(diagnosis.named(), nullptr) << diagnosis.text();
  EXPECT_TRUE(contains(diagnosis.pattern, "the wrong rows are 1.5 times the right ones"))
      << diagnosis.pattern;
}

TEST(Pattern, OfAFactorForEachRowPointsAtTheSum) {
  Drawn drawn("q64:k100");
  const Diagnosis diagnosis = diagnosis_of(drawn, [](std::int64_t r, std::int64_t, float value) {
    return value * (1 + 0.25f * static_cast<float>(r * r % 7 + 1));
  });
  EXPECT_TRUE(contains(diagnosis.pattern, "a factor of its own, from 1.25 to 2.")) << diagnosis.pattern;
  EXPECT_TRUE(contains(diagnosis.pattern, "look at the sum")) << diagnosis.pattern;
}

TEST(Pattern, OfNanIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Drawn drawn("q64:k100");
  Diagnosis diagnosis = diagnosis_of(drawn, [nan](std::int64_t, std::int64_t, float) { return nan; });
  // Several mistakes come to NaN everywhere, and so does memory that holds NaN: none is named.
  EXPECT_EQ(diagnosis.named(), nullptr) << diagnosis.text();
  EXPECT_EQ(diagnosis.pattern, "every element is wrong; all of these are NaN");
  EXPECT_TRUE(contains(diagnosis.text(), "closest known mistake: stale-maximum")) << diagnosis.text();
  EXPECT_TRUE(contains(diagnosis.map.text(), "NNNN")) << diagnosis.map.text();

  diagnosis = diagnosis_of(drawn, [nan](std::int64_t r, std::int64_t c, float value) {
    return r == 5 && c == 7 ? nan : r == 5 && c == 8 ? 1 / (value - value) : value;
  });
  EXPECT_TRUE(contains(diagnosis.pattern, "2 of 4096 elements are wrong, rows 5, dimensions 7, 8"))
      << diagnosis.pattern;
}

TEST(Pattern, PermutationWithoutARuleIsStillRows) {
  Drawn drawn("q64:k100");
  drawn.answer_rightly();
  const std::vector<float> right = drawn.out;
  for (std::int64_t r = 0; r < 64; ++r)
    std::copy_n(right.begin() + r * 29 % 64 * 64, 64, drawn.out.begin() + r * 64);
  const Diagnosis diagnosis = diagnose(drawn.evidence());
  ASSERT_NE(diagnosis.named(), nullptr) << diagnosis.text();
  EXPECT_EQ(diagnosis.named()->mistake->name, "rows-swapped");
  EXPECT_TRUE(contains(diagnosis.named()->parameters, "holds the answer of query")) << diagnosis.text();
}

TEST(Pattern, MapIsSmallWhateverTheSize) {
  Drawn drawn("q1000:k40:dv200");
  const Diagnosis diagnosis =
      diagnosis_of(drawn, [](std::int64_t r, std::int64_t c, float) { return noise(r, c); });
  EXPECT_LE(diagnosis.map.rows, 24);
  EXPECT_LE(diagnosis.map.columns, 64);
  EXPECT_EQ(static_cast<std::int64_t>(diagnosis.map.gate_fraction.size()),
            diagnosis.map.rows * diagnosis.map.columns);
  EXPECT_GE(diagnosis.map.rows * diagnosis.map.rows_per_cell, 1000);
  EXPECT_GE(diagnosis.map.columns * diagnosis.map.columns_per_cell, 200);
}

}  // namespace
}  // namespace runmax::diagnosis
