#include "cli/stage_progress.hpp"

#include <unistd.h>

#include "cli/output.hpp"

namespace runmax::cli {

StageProgress::StageProgress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void StageProgress::operator()(const std::string& stage) const {
  print_aside(terminal_ ? "\r\x1b[K" + stage + " ..." : stage + "\n");
}

void StageProgress::clear() const {
  if (terminal_) print_aside("\r\x1b[K");
}

}  // namespace runmax::cli
