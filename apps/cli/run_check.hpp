// `runmax run --check`: the answer on the user's own arrays before the gates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "cli/attention_arrays.hpp"

namespace runmax::cli {

struct RunVerdict {
  check::KernelReport kernel;
  std::int64_t rows_compared = 0;  // of each head
  std::int64_t rows = 0;

  // True if every gate passed, or if there is no query row at all.
  bool accepted() const { return rows == 0 || kernel.accepted(); }
  std::string text() const;
};

// Compares o and lse, in the layout of the inputs and (batch, heads, length), with the double-precision
// reference of the same FP32 inputs. Nothing is known about the user's data, so the hostile gate judges, not
// the lesson's. `repeat` is the command to print beside a failure.
RunVerdict judge_run(const Plan& plan, const DeviceFacts& facts, Layout layout, const NamedArray& q,
                     const NamedArray& k, const NamedArray& v, const inputs::HostOptions& options,
                     const std::vector<float>& o, const std::vector<float>& lse, const std::string& repeat);

}  // namespace runmax::cli
