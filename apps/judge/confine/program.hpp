// Runs a program that is not to be trusted, a compiler with somebody's source, and keeps what it says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "judge/confine/confine.hpp"
#include "runmax/status.hpp"

namespace runmax::judge {

struct ProgramResult {
  int exit_status = -1;  // -1: it did not end by itself
  int signal = 0;
  bool timed_out = false;
  std::string output;  // stdout and stderr, the first 64 KiB
};

// `arguments[0]` is looked for in PATH. Its environment is PATH, LANG, and TMPDIR = `folder`, where it
// starts. It and what it starts are ended after `seconds`. A status if it cannot be started at all.
Result<ProgramResult> run_program(const std::vector<std::string>& arguments, const std::string& folder,
                                  const Limits& limits, double seconds);

}  // namespace runmax::judge
