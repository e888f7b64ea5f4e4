// Where text goes: stdout is the result, stderr is progress and complaint.
#pragma once

#include <string>

#include "cli/exit_code.hpp"

namespace runmax::cli {

// Neither throws where the stream takes nothing, a closed one or a full disk: stderr may be lost, and whether
// stdout was is asked once, at the end, by result_arrived.
void print_result(const std::string& text);
void print_aside(const std::string& text);

// Flushes stdout; false if any of it was lost since the program began.
bool result_arrived();

// Writes "runmax: MESSAGE" to stderr and returns the code.
ExitCode complain(ExitCode code, const std::string& message);
ExitCode complain(const Status& status);

// As complain, for an output file that could not be written after its path had been checked: the machine
// lacks something, such as space.
ExitCode complain_unwritten(const Status& status);

// Writes "runmax: notice: MESSAGE" to stderr.
void notice(const std::string& message);

}  // namespace runmax::cli
