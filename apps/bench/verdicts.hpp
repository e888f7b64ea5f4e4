// Answers before the gates: what decides whether an implementation is timed.
#pragma once

#include <vector>

#include "bench/report.hpp"
#include "bench/workload.hpp"

namespace runmax::bench {

// Puts outputs[e] before the gates that are meant for the workload and writes the verdict into *entries[e].
// `rows` query rows of each head are compared at most, or for 0 as many as a few seconds allow.
void judge_outputs(const Workload& workload, const DeviceFacts& facts, std::int64_t rows,
                   std::vector<Output> outputs, const std::vector<Entry*>& entries);

}  // namespace runmax::bench
