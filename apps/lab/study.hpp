// Runs the paths at one length: inputs, reference, gates, memory, times.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lab/bench.hpp"
#include "lab/report.hpp"

namespace runmax::lab {

struct StudyOptions {
  DeviceFacts facts;
  std::uint64_t seed = 1;
  int threads = 1;            // CPU, and the reference
  double time_limit_s = 120;  // a path that would take longer for one run is skipped
  // Of this machine, for the share of the peak. A path that comes out above it has it measured again: a peak
  // is a maximum, and another program may have taken its share of the first try.
  double* fma_rate = nullptr;
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

// The lesson's data as a problem: one head, in=loud.
Problem lab_problem(std::int64_t query_len, std::int64_t kv_len, std::uint64_t seed);

// The naive, the online and the engine's path at length n, in this order. A length that a kernel refuses or
// that does not fit is a result; a status is returned only if the machine fails or a measurement contradicts
// itself.
Result<std::vector<PathResult>> study_length(std::int64_t n, const StudyOptions& options, Bench& bench);

}  // namespace runmax::lab
