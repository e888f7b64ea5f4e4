// Runs independent items on the calling thread and oneTBB's workers, at most `threads` of them together.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

namespace runmax {

class Workers {
 public:
  explicit Workers(std::int32_t threads) : threads_(std::max(threads, 1)) {}

  // Calls work(worker, item) for every item in [0, items), begun in ascending order; returns when all are
  // done. `worker` is in [0, threads) and never in use twice at one time.
  template <class Work>
  void for_each(std::int64_t items, Work work) const {
    const auto count = static_cast<std::int32_t>(std::min<std::int64_t>(threads_, items));
    if (count <= 1) {
      for (std::int64_t item = 0; item < items; ++item) work(std::int64_t{0}, item);
      return;
    }
    run(items, count, &work, [](void* erased, std::int64_t worker, std::int64_t item) {
      (*static_cast<Work*>(erased))(worker, item);
    });
  }

 private:
  using Call = void (*)(void* work, std::int64_t worker, std::int64_t item);
  static void run(std::int64_t items, std::int32_t threads, void* work, Call call);

  std::int32_t threads_;
};

}  // namespace runmax
