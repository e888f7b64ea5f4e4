// Runs a bench: verifies every implementation, then times all of them in turns.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/report.hpp"
#include "bench/workload.hpp"

namespace runmax::bench {

// Implementations besides the kernels, and why some that were asked for are not among them.
struct Refused {
  Identity identity;
  std::string reason;
};
template <class ContenderType>
struct OthersOf {
  std::vector<std::unique_ptr<ContenderType>> contenders;
  std::vector<Refused> refused;
};
using Others = OthersOf<Contender>;

struct SessionOptions {
  DeviceFacts facts;
  std::vector<std::string> kernels;  // "" is the plan's own choice
  std::vector<int> threads;          // at least 1 each
  std::vector<measure::CacheState> caches{measure::CacheState::warm, measure::CacheState::cold};
  Pass pass = Pass::forward;
  int rounds = 0;               // 0: automatic, see rounds.hpp
  double time_limit_s = 20;     // of timing
  std::int64_t copy_bytes = 0;  // of each buffer of the copy probe; 0: the last cache's size
  // Implementations to time besides the kernels, on the same inputs; may be empty.
  std::function<Result<Others>(const Workload&)> others = {};
  std::function<void(const std::string&)> progress = [](const std::string&) {};
  // The share of the work that is done, in [0, 1].
  std::function<void(double)> done = [](double) {};
};

// A status only if the machine fails, or nothing serves a problem; what a gate rejects is in the report.
Result<Report> run_session(const std::vector<Problem>& problems, const SessionOptions& options);

}  // namespace runmax::bench
