#include "fuzz/promise.hpp"
#include "fuzz/targets.hpp"
#include "runmax/problem.hpp"

namespace runmax::fuzz {

void problem_target(Bytes input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  const Result<Problem> parsed = parse_problem(text);
  if (!parsed.ok()) return promise(!parsed.status().message().empty(), "an error has a message");
  const Problem& problem = parsed.value();
  promise(validate(problem).ok(), "an accepted problem is valid");
  const std::string printed = to_text(problem);
  const Result<Problem> again = parse_problem(printed);
  promise(again.ok(), "what is printed can be parsed");
  promise(again.value() == problem, "printing and parsing gives the same problem");
  promise(to_text(again.value()) == printed, "the canonical text is stable");
  promise(forward_flops(problem) >= 0 && minimum_bytes(problem) >= 0 && score_matrix_bytes(problem) >= 0,
          "costs are not negative");
}

}  // namespace runmax::fuzz
