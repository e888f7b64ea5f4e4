// Where text goes: stdout is the result, stderr is progress and complaint.
#pragma once

#include <string>

#include "cli/exit_code.hpp"

namespace runmax::cli {

// Writes "runmax: MESSAGE" to stderr and returns the code.
ExitCode complain(ExitCode code, const std::string& message);
ExitCode complain(const Status& status);

// Writes "runmax: notice: MESSAGE" to stderr.
void notice(const std::string& message);

}  // namespace runmax::cli
