// Memory that a thread will need soon: asked for a few cache lines at a time between register tiles, whose
// multiply-adds hide the wait.
#pragma once

#include <algorithm>
#include <cstdint>

namespace runmax::cpu {

class Ahead {
 public:
  // `count` rows of `bytes` neighbouring bytes, `stride` bytes from one to the next. What does not fit in the
  // list is left to its use.
  void add(const void* first, std::int64_t bytes, std::int64_t stride, std::int64_t count) {
    if (count <= 0 || bytes <= 0 || ranges_ == most_ranges) return;
    if (stride == bytes) {
      bytes *= count;
      count = 1;
    }
    const std::int64_t lines = (bytes + line_bytes - 1) / line_bytes;
    list_[ranges_++] = {static_cast<const char*>(first), stride, lines, lines, count};
    lines_ += lines * count;
  }

  // Spreads what was added over `steps` calls of ask().
  void spread(std::int64_t steps) { lines_per_step_ = steps > 0 ? (lines_ + steps - 1) / steps : 0; }

  void ask() {
    for (std::int64_t left = lines_per_step_; left > 0 && next_ < ranges_;) {
      Range& range = list_[next_];
      const std::int64_t some = std::min(left, range.left);
      const char* at = range.row + (range.lines - range.left) * line_bytes;
      for (std::int64_t line = 0; line < some; ++line)
        __builtin_prefetch(at + line * line_bytes, 0, 2);  // to the second-level cache
      left -= some;
      range.left -= some;
      if (range.left > 0) continue;
      range.row += range.stride;
      range.left = range.lines;
      if (--range.rows == 0) ++next_;
    }
  }

 private:
  static constexpr int most_ranges = 8;
  static constexpr std::int64_t line_bytes = 64;
  struct Range {
    const char* row = nullptr;
    std::int64_t stride = 0;
    std::int64_t lines = 0, left = 0;  // of a row
    std::int64_t rows = 0;
  };
  Range list_[most_ranges];
  int ranges_ = 0, next_ = 0;
  std::int64_t lines_ = 0, lines_per_step_ = 0;
};

}  // namespace runmax::cpu
