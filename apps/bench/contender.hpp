// What a bench times: an implementation that computes one workload, on some number of threads.
#pragma once

#include <string>

#include "check/runner.hpp"
#include "runmax/status.hpp"

namespace runmax::bench {

struct Identity {
  std::string implementation;  // "runmax", or whose
  std::string kernel;
  std::string computed_as;
  int threads = 1;
};

class Contender {
 public:
  virtual ~Contender() = default;

  virtual const Identity& identity() const = 0;

  // Runs once into outputs filled with NaN and hands the answer out, packed.
  virtual Result<check::Answer> answer() = 0;

  // Whether the outputs of the last run have the bits of the answer that was handed out.
  virtual Result<bool> unchanged() = 0;

  // Seconds of `runs` runs, one after another.
  virtual Result<double> time(int runs) = 0;

  // Drops inputs, outputs and workspace from every cache.
  virtual void flush() = 0;
};

}  // namespace runmax::bench
