// Exit codes of the program; part of its interface.
#pragma once

#include "runmax/status.hpp"

namespace runmax::cli {

enum class ExitCode : int {
  done = 0,         // done, or verdict accepted
  rejected = 1,     // a gate failed
  bad_input = 2,    // usage error or unreadable, malformed input
  internal = 3,     // a bug of ours
  environment = 4,  // the machine lacks something: no GPU, no memory, no disk space
  not_built = 5,    // judge: the candidate does not build
  crashed = 6,      // judge: the candidate crashed or did not return
};

// The exit code that a library status stands for.
ExitCode exit_code(const Status& status);

}  // namespace runmax::cli
