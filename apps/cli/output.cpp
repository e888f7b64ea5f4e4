#include "cli/output.hpp"

#include <cstdio>

namespace runmax::cli {

ExitCode exit_code(const Status& status) {
  switch (status.code()) {
    case StatusCode::ok:
      return ExitCode::done;
    case StatusCode::invalid_argument:
    case StatusCode::unsupported:
      return ExitCode::bad_input;
    case StatusCode::out_of_memory:
    case StatusCode::no_device:
    case StatusCode::device_error:
      return ExitCode::environment;
    case StatusCode::workspace_too_small:
    case StatusCode::internal_error:
      return ExitCode::internal;
  }
  return ExitCode::internal;
}

void print_result(const std::string& text) { (void)std::fwrite(text.data(), 1, text.size(), stdout); }

void print_aside(const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

// A write that failed earlier has emptied the buffer, so that flushing it again succeeds.
bool result_arrived() { return std::fflush(stdout) == 0 && std::ferror(stdout) == 0; }

ExitCode complain(ExitCode code, const std::string& message) {
  print_aside("runmax: " + message + "\n");
  return code;
}

ExitCode complain(const Status& status) { return complain(exit_code(status), status.message()); }

ExitCode complain_unwritten(const Status& status) {
  const bool ours = status.code() == StatusCode::internal_error;
  return complain(ours ? ExitCode::internal : ExitCode::environment, status.message());
}

void notice(const std::string& message) { print_aside("runmax: notice: " + message + "\n"); }

}  // namespace runmax::cli
