// What a bench times: an implementation that computes one workload, on some number of threads.
#pragma once

#include <string>
#include <vector>

#include "check/runner.hpp"
#include "runmax/status.hpp"

namespace runmax::bench {

struct Identity {
  std::string implementation;  // "runmax", or whose
  std::string kernel;
  std::string computed_as;
  int threads = 1;
};

// What an implementation computed: O and LSE, or the gradients, packed (batch, heads, length, dim).
struct Output {
  check::Answer attention;
  std::vector<float> dq, dk, dv;
};

class Contender {
 public:
  virtual ~Contender() = default;

  virtual const Identity& identity() const = 0;

  // Runs once into outputs filled with NaN and hands them out.
  virtual Result<Output> output() = 0;

  // Whether the outputs of the last run have the bits of those that were handed out.
  virtual Result<bool> unchanged() = 0;

  // Seconds of `runs` runs, one after another.
  virtual Result<double> time(int runs) = 0;

  // Drops inputs, outputs and workspace from every cache.
  virtual void flush() = 0;
};

}  // namespace runmax::bench
