// Inputs of one call, with what is true of them: the reference's answer and the naive path's. They stay in
// the judge's process.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/reference.hpp"
#include "runmax/runmax.hpp"

namespace runmax::judge {

// Packed (batch, heads, length, dim).
struct Inputs {
  std::vector<float> q, k, v;
};

struct Truth {
  std::vector<reference::Row<double>> want;  // one per (batch, head, query)
  std::vector<float> naive;                  // the naive path's output
};

// Computes both on `threads` threads.
Result<Truth> truth_of(const Problem& problem, const Inputs& inputs, int threads);

// Only the reference, of the given query rows of a problem with one head.
std::vector<reference::Row<double>> reference_rows(const Problem& problem, const Inputs& inputs,
                                                   const std::vector<std::int64_t>& rows, int threads);

// The naive path by name: cpu_naive on `threads` threads. The plan fits any inputs of the problem.
Result<Plan> naive_plan(const Problem& problem, int threads);
Status run_naive(const Plan& plan, const float* q, const float* k, const float* v, float* o, void* workspace);

}  // namespace runmax::judge
