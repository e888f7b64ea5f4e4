// Exponentials of a GPU, each over every float of its range and in a loop, host side.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace runmax::bench {

struct PricedExponential {
  const char* function;
  const char* computes;
  const char* used_by;
  std::uint64_t arguments = 0;
  double worst_ulp = 0;  // where the truth is a normal float
  float worst_at = 0;
  double largest_lost = 0;  // the largest truth for which the answer is 0
  // Results of one multiprocessor in a cycle, one sample for each block and launch.
  std::vector<double> per_cycle{};
};

struct Prices {
  std::vector<PricedExponential> rows;
  std::string error;  // of CUDA; empty if there was none
};

// Arguments of e^x reach down to `lowest`, those of 2^x to `lowest` times log2(e).
Prices price_exponentials(float lowest, int multiprocessors);

}  // namespace runmax::bench
