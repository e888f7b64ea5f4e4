// `runmax run --check`: the answer on the user's own arrays before the gates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "cli/attention_arrays.hpp"
#include "cli/run_forms.hpp"

namespace runmax::cli {

struct RunVerdict {
  check::KernelReport kernel;
  std::int64_t rows_compared = 0;  // of each head
  std::int64_t rows = 0;

  // True if every gate passed, or if there is no query row at all.
  bool accepted() const { return rows == 0 || kernel.accepted(); }
  std::string text() const;
};

// Compares o and lse, whose bytes lie in the layout of the inputs and as (batch, heads, length), with the
// double-precision reference of the same inputs. Nothing is known about the user's data, so the hostile gate
// judges, not the lesson's. `repeat` is the command to print beside a failure.
RunVerdict judge_run(const Plan& plan, const DeviceFacts& facts, Layout layout, const NamedArray& q,
                     const NamedArray& k, const NamedArray& v, const inputs::HostOptions& options,
                     const FormTensors& forms, const std::vector<std::byte>& o,
                     const std::vector<std::byte>& lse, const std::string& repeat);

}  // namespace runmax::cli
