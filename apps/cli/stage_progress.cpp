#include "cli/stage_progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include "cli/output.hpp"

namespace runmax::cli {

StageProgress::StageProgress() : terminal_(isatty(STDERR_FILENO) != 0) {}

void StageProgress::operator()(const std::string& stage) const {
  print_aside(terminal_ ? "\r\x1b[K" + stage + " ..." + left() : stage + "\n");
}

void StageProgress::done(double fraction) {
  reached_ = std::chrono::steady_clock::now();
  if (fraction == 0) begin_ = reached_;
  fraction_ = fraction;
}

std::string StageProgress::left() const {
  const std::chrono::duration<double> spent = reached_ - begin_;
  if (fraction_ <= 0 || spent.count() < 2) return "";
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - reached_;
  const double seconds = spent.count() * (1 - fraction_) / fraction_ - since.count();
  return seconds < 1 ? " nearly done" : fmt::format(" about {:.0f} s left", seconds);
}

void StageProgress::clear() const {
  if (terminal_) print_aside("\r\x1b[K");
}

}  // namespace runmax::cli
