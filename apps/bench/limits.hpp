// What the machine can do at most, looked at again beside every sample of a bench.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "measure/cpu_probes.hpp"
#include "runmax/status.hpp"

namespace runmax::bench {

// How the FMA rate grows from one thread to `threads`. Two threads that share a core do not reach twice the
// rate of one, and times taken then say nothing about the kernel.
struct Scaling {
  int threads = 1;
  double one_thread = 0;   // flops per second
  double all_threads = 0;  // flops per second
  int tries = 0;

  double factor() const { return one_thread > 0 ? all_threads / one_thread : 0; }
  // At least 95 % of what so many cores of one thread's rate have: 1.9 for two.
  bool holds() const { return holds(all_threads, one_thread, threads); }
  static bool holds(double all_threads, double one_thread, int threads) {
    return all_threads >= 0.95 * threads * one_thread;
  }
};

// Measures until it holds, at most five times; the best try.
Scaling measure_scaling(int threads);

// The peak now, in about 4 ms.
double quick_fma_rate(int threads);

// Read bandwidth over as many bytes as a workload has, so that it comes from the same level of the memory.
class ReadLimit {
 public:
  static Result<ReadLimit> make(double bytes);
  double sample(int threads, measure::CacheState cache) const;

 private:
  // A buffer too small to time its reading cold stands in for none.
  measure::ReadProbe warm_, cold_;
};

}  // namespace runmax::bench
