// What a bench times: an implementation that computes one workload, on some number of threads.
#pragma once

#include <string>
#include <vector>

#include "check/gradient_check.hpp"
#include "check/runner.hpp"
#include "measure/cache_state.hpp"
#include "runmax/status.hpp"

namespace runmax::bench {

struct Identity {
  std::string implementation;  // "runmax", or whose
  std::string kernel;
  std::string computed_as;
  int threads = 1;  // 0 on a GPU
};

// How a run is timed: what the caches hold, and on a GPU whether runs are launched one by one or replayed as
// a graph of dependent runs. A graph is warm.
enum class Way { warm, cold, graph };

inline measure::CacheState cache_of(Way way) {
  return way == Way::cold ? measure::CacheState::cold : measure::CacheState::warm;
}

// What an implementation computed: O and LSE, or the gradients, packed (batch, heads, length, dim); of
// problems that are not plain those of the engine, in the form that the problem has.
struct Output {
  check::Answer attention;
  std::vector<float> dq, dk, dv;
  check::GradientAnswer gradients{};
};

// What every implementation can do, whatever it runs on.
class Implementation {
 public:
  virtual ~Implementation() = default;

  virtual const Identity& identity() const = 0;

  // Runs once into outputs filled with NaN and hands them out.
  virtual Result<Output> output() = 0;

  // Whether the outputs of the last run have the bits of those that were handed out.
  virtual Result<bool> unchanged() = 0;
};

class Contender : public Implementation {
 public:
  // Seconds of `runs` runs, one after another.
  virtual Result<double> time(int runs) = 0;

  // Drops inputs, outputs and workspace from every cache.
  virtual void flush() = 0;
};

// An implementation on a GPU, timed by the device's own clock.
class GpuContender : public Implementation {
 public:
  // Seconds of one run. warm: `runs` of them back to back, after some that are not timed; cold: one, after
  // the L2 was overwritten; graph: the slope over `runs` nodes. unsupported if it cannot be timed in this
  // way.
  virtual Result<double> time(Way way, int runs) = 0;
};

// How many untimed runs come before so many warm ones: they fill the caches and hide the host's first launch.
inline int lead_of(int runs) { return (runs + 4) / 5; }

}  // namespace runmax::bench
