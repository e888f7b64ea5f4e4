// Runs independent items on at most `threads` threads of oneTBB, each with a number of its own.
#pragma once

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

namespace runmax::cpu {

class Workers {
 public:
  explicit Workers(std::int32_t threads) : threads_(std::max(threads, 1)) {
    if (threads_ > 1) arena_.emplace(threads_);
  }

  // Calls work(worker, item) for every item in [0, items), in ascending order of start. `worker` is in
  // [0, threads) and never in use twice at one time.
  template <class Work>
  void for_each(std::int64_t items, Work work) {
    const auto count = static_cast<std::int32_t>(std::min<std::int64_t>(threads_, items));
    if (count <= 1) {
      for (std::int64_t item = 0; item < items; ++item) work(0, item);
      return;
    }
    std::atomic<std::int64_t> next{0};
    arena_->execute([&] {
      tbb::parallel_for(
          std::int32_t{0}, count, std::int32_t{1},
          [&](std::int32_t worker) {
            for (std::int64_t item = next++; item < items; item = next++) work(worker, item);
          },
          tbb::simple_partitioner());
    });
  }

 private:
  std::int32_t threads_;
  std::optional<tbb::task_arena> arena_;
};

}  // namespace runmax::cpu
