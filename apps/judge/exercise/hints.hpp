// The two hints of the exercise: one text for `runmax judge hint` and for docs/exercise.md.
#pragma once

#include <string_view>

namespace runmax::judge {

// Hint 1 or 2; empty for any other number.
inline std::string_view exercise_hint(int number) {
  if (number == 1)
    return "A row of scores is what you may not keep, so write down what a query row takes along from one "
           "tile of keys "
           "to the next. It is three things, and one of them is 64 numbers wide. Now let a tile come in that "
           "holds a "
           "larger score than every tile before it: which of the three still mean what they meant, and what "
           "has to be "
           "done to the others?";
  if (number == 2)
    return "Everything that a row has added up so far was measured against the old maximum. Write exp(score "
           "- new) as "
           "exp(score - old) times something: what is left over does not depend on the score, so a single "
           "number "
           "corrects a whole history. Two of the three things are histories and are multiplied by it; the "
           "third is "
           "simply replaced. What does that number come to in the first tile, if the maximum starts at minus "
           "infinity?";
  return {};
}

}  // namespace runmax::judge
