// Runs a bench on a GPU, problem by problem: verifies every implementation, then times all of them in turns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/session.hpp"

namespace runmax::bench {

using GpuOthers = OthersOf<GpuContender>;

struct GpuSessionOptions {
  DeviceFacts facts;
  std::vector<std::string> kernels;  // "" is the plan's own choice
  std::vector<Way> ways{Way::warm, Way::graph, Way::cold};
  int rounds = 0;            // 0: automatic, see rounds.hpp
  double time_limit_s = 20;  // of timing, all problems together
  int graph_nodes = 0;       // 0: 50, or as many as take a moment
  // Implementations to time besides the kernels, on the same inputs; may be empty.
  std::function<Result<GpuOthers>(const Workload&)> others = {};
  std::function<void(const std::string&)> progress = [](const std::string&) {};
  // The share of the work that is done, in [0, 1].
  std::function<void(double)> done = [](double) {};
};

// A status only if the machine fails, or nothing serves a problem; what a gate rejects is in the report.
// no_device in a build without CUDA.
Result<Report> run_gpu_session(const std::vector<Problem>& problems, const GpuSessionOptions& options);

}  // namespace runmax::bench
