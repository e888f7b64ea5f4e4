// Gradients before their gates.
#pragma once

#include <string>
#include <vector>

#include "bench/contender.hpp"
#include "bench/workload.hpp"
#include "gate/verdict.hpp"

namespace runmax::bench {

struct GradientVerdict {
  bool passed = true;
  double gate_fraction = 0;  // the largest of dQ, dK and dV
  std::string reason;        // the first element that broke its bound
};

// Compares the gradients of some KV heads, as many as take a few seconds, at least one and then all of each,
// with the double-precision reference.
std::vector<GradientVerdict> judge_gradients(const Workload& workload, const std::vector<Output>& outputs,
                                             int threads);

}  // namespace runmax::bench
