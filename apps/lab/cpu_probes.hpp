// What this machine's CPU can do at most: copy bandwidth, FMA rate, clock, and the cost of an empty parallel
// loop.
#pragma once

#include <cstddef>
#include <memory>

#include "lab/memory.hpp"
#include "lab/sampling.hpp"

namespace runmax::lab {

// memcpy between two buffers.
class CopyProbe {
 public:
  // Two buffers of `bytes` each, their pages in place. out_of_memory if they do not fit.
  static Result<CopyProbe> make(std::size_t bytes);

  // Bytes per second, read plus written, on `threads` threads. Median and spread are those of the rate.
  Summary rate(int threads) const;

 private:
  std::unique_ptr<MemoryLedger> ledger_;
  Buffer from_, to_;
};

// Floating-point operations per second (an FMA is two) of independent FMA chains held in registers, on
// `threads` threads at once: the sum of what each reaches in the median of many pieces of 0.2 ms. Pieces are
// shorter than the system's time slices, so that other programs on the machine do not lower the peak.
double cpu_fma_rate(int threads);

// Cycles per second of one core, from a chain of dependent additions of one cycle each.
double cpu_clock_hz();

// Milliseconds of a parallel loop with nothing to do on `threads` threads.
Summary cpu_empty_loop_ms(int threads);

}  // namespace runmax::lab
