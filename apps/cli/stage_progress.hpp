// Progress on stderr: one line that is overwritten on a terminal, one line a stage elsewhere.
#pragma once

#include <chrono>
#include <string>

namespace runmax::cli {

class StageProgress {
 public:
  StageProgress();
  void operator()(const std::string& stage) const;
  // So much of the work, in [0, 1], was done since `done(0)`. Once that took 2 s, a terminal is told what is
  // left.
  void done(double fraction);
  // Removes the line, so that a section does not start behind it.
  void clear() const;

 private:
  std::string left() const;
  bool terminal_;
  double fraction_ = 0;
  std::chrono::steady_clock::time_point begin_, reached_;
};

}  // namespace runmax::cli
