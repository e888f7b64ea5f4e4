// docs/exercise.md holds the hints that `runmax judge hint` prints, and a solution that is one of the honest
// candidates.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "judge/exercise/hints.hpp"

namespace runmax::judge {
namespace {

// A text with every run of white space as one space.
std::string unwrapped(const std::string& text) {
  std::istringstream words(text);
  std::string word, result;
  while (words >> word) result += (result.empty() ? "" : " ") + word;
  return result;
}

std::string file_text(const std::string& name) {
  std::ifstream file(std::string(RUNMAX_SOURCE_DIR) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name << " cannot be read";
  return text.str();
}

TEST(Exercise, HintsOfThePageAreThoseOfTheProgram) {
  const std::string page = unwrapped(file_text("docs/exercise.md"));
  for (const int number : {1, 2}) {
    ASSERT_FALSE(exercise_hint(number).empty());
    const std::string hint = unwrapped(std::string(exercise_hint(number)));
    EXPECT_NE(page.find("</summary> " + hint + " </details>"), std::string::npos)
        << "hint " << number << " is not folded away in docs/exercise.md, word for word";
  }
  EXPECT_TRUE(exercise_hint(0).empty());
  EXPECT_TRUE(exercise_hint(3).empty());
}

TEST(Exercise, SolutionOfThePageIsAnHonestCandidate) {
  const std::string page = file_text("docs/exercise.md");
  const std::size_t begin = page.find("```cpp\n"), end = page.find("```", begin + 7);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::string solution = unwrapped(page.substr(begin + 7, end - begin - 7));
  EXPECT_GT(solution.size(), 500u);
  EXPECT_NE(unwrapped(file_text("apps/judge/faults/honest/online.cpp")).find(solution), std::string::npos)
      << "the code of docs/exercise.md is not in apps/judge/faults/honest/online.cpp";
}

}  // namespace
}  // namespace runmax::judge
