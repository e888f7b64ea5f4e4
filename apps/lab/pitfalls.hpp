// The lesson's pitfalls, each measured: what goes wrong, by how much, and which data shows it.
#pragma once

#include <string>
#include <vector>

#include "lab/bench.hpp"
#include "lab/report.hpp"
#include "lab/study.hpp"

namespace runmax::lab {

// Length at which planted faults are gated, and at which baselines are timed on a CPU and on a GPU.
constexpr std::int64_t fault_len = 1024;
constexpr std::int64_t cpu_baseline_len = 1024;
constexpr std::int64_t gpu_baseline_len = 4096;

// Each mistake on this machine, in the lesson's order. One that cannot be made here is an entry that says so.
Result<std::vector<Pitfall>> study_pitfalls(const StudyOptions& options, double empty_launch_ms,
                                            Bench& bench);

}  // namespace runmax::lab
