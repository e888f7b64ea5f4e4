// Progress on stderr: one line that is overwritten on a terminal, one line a stage elsewhere.
#pragma once

#include <string>

namespace runmax::cli {

class StageProgress {
 public:
  StageProgress();
  void operator()(const std::string& stage) const;
  // Removes the line, so that a section does not start behind it.
  void clear() const;

 private:
  bool terminal_;
};

}  // namespace runmax::cli
