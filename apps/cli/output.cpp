#include "cli/output.hpp"

#include <fmt/core.h>

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

ExitCode complain(ExitCode code, const std::string& message) {
  fmt::print(stderr, "runmax: {}\n", message);
  return code;
}

ExitCode complain(const Status& status) { return complain(exit_code(status), status.message()); }

void notice(const std::string& message) { fmt::print(stderr, "runmax: notice: {}\n", message); }

}  // namespace runmax::cli
