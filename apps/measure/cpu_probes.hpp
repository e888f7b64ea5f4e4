// What this machine's CPU can do at most: copy and read bandwidth, FMA rate, clock, and the cost of an empty
// parallel loop.
#pragma once

#include <cstddef>
#include <memory>

#include "measure/cache_state.hpp"
#include "measure/memory.hpp"
#include "measure/sampling.hpp"

namespace runmax::measure {

// memcpy between two buffers.
class CopyProbe {
 public:
  // Two buffers of `bytes` each, their pages in place. out_of_memory if they do not fit.
  static Result<CopyProbe> make(std::size_t bytes);

  // Bytes per second, read plus written, on `threads` threads. Median and spread are those of the rate.
  Summary rate(int threads) const;

  // The same, once.
  double sample(int threads) const;

 private:
  std::unique_ptr<MemoryLedger> ledger_;
  Buffer from_, to_;
};

// Reads memory and keeps nothing of it.
class ReadProbe {
 public:
  // A buffer of `bytes`, its pages in place. out_of_memory if it does not fit.
  static Result<ReadProbe> make(std::size_t bytes);

  // Bytes per second on `threads` threads, once: the better of plain loads and of loads that ask for later
  // lines. Warm: the buffer was read just before; cold: its lines were flushed.
  double sample(int threads, CacheState cache) const;

 private:
  double pass(int threads, bool prefetch, std::size_t rounds) const;

  std::unique_ptr<MemoryLedger> ledger_;
  Buffer buffer_;
};

// How long to look for the peak: each of `trials` is `pieces` pieces of 0.2 ms.
struct FmaEffort {
  int pieces = 100;
  int trials = 3;
};

// Floating-point operations per second (an FMA is two) of independent FMA chains held in registers, on
// `threads` threads at once: the sum of what each reaches in the median of many pieces of 0.2 ms. Pieces are
// shorter than the system's time slices, so that other programs on the machine do not lower the peak.
double cpu_fma_rate(int threads, FmaEffort effort = {});

// Cycles per second of one core, from a chain of dependent additions of one cycle each.
double cpu_clock_hz();

// Milliseconds of a parallel loop with nothing to do on `threads` threads.
Summary cpu_empty_loop_ms(int threads);

}  // namespace runmax::measure
