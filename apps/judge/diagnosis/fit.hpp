// How well a mistake explains what was seen, over a sample of rows.
#pragma once

#include <vector>

#include "judge/diagnosis/call.hpp"
#include "judge/diagnosis/hypothesis.hpp"

namespace runmax::diagnosis {

// Rows of all calls, with what mistakes start from.
class Sample {
 public:
  // At most so many wrong and right rows of each call. The calls must outlive the sample.
  Sample(const std::vector<Call>& calls, std::int64_t wrong_limit, std::int64_t right_limit);

  // Share of the wrong rows' error that is gone against the mistake's answer, 0 to 1: the mean over the wrong
  // calls; rows and calls that the mistake would make wrong, and that are right, dilute it.
  double explained(const Hypothesis& hypothesis) const;
  double lse_explained(std::string_view mistake) const;

 private:
  struct CallRows {
    std::vector<RowInputs> wrong, right;
  };
  std::vector<CallRows> calls_;
};

// Share of a row's error (root mean square, in units of A*) that is gone when `answer` takes the place of the
// right one; what is left within the bound does not count.
double row_explained(const Call& call, std::int64_t r, const float* answer);

}  // namespace runmax::diagnosis
