#include "runtime/workers.hpp"

#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <exception>

#if defined(__SANITIZE_THREAD__)
#include <thread>
#include <vector>
#endif

namespace runmax {
namespace {

// One call's items. Helpers that TBB starts late may outlive the call: they find it closed and touch nothing
// else.
class Team {
 public:
  Team(std::int64_t items, void* work, void (*call)(void*, std::int64_t, std::int64_t))
      : items_(items), work_(work), call_(call) {
    state_.store(0, std::memory_order_release);
  }

  void help() {
    std::int32_t state = state_.load(std::memory_order_acquire);
    do {
      if (state & closed) return;
    } while (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel));
    drain(next_worker_.fetch_add(1));
    if (state_.fetch_sub(1, std::memory_order_acq_rel) == (closed | 1)) state_.notify_one();
  }

  void lead() {
    drain(0);
    std::int32_t state = state_.fetch_or(closed, std::memory_order_acq_rel) | closed;
    while (state != closed) {
      state_.wait(state, std::memory_order_acquire);
      state = state_.load(std::memory_order_acquire);
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static constexpr std::int32_t closed = std::int32_t{1} << 30;

  void drain(std::int32_t worker) {
    try {
      for (std::int64_t item = next_item_++; item < items_; item = next_item_++) call_(work_, worker, item);
    } catch (...) {
      next_item_ = items_;
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }

  std::int64_t items_;
  void* work_;
  void (*call_)(void*, std::int64_t, std::int64_t);
  std::atomic<std::int64_t> next_item_{0};
  std::atomic<std::int32_t> next_worker_{1};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;         // of the first item that threw; read when all have left
  std::atomic<std::int32_t> state_;  // helpers at work, and whether the call is over
};

}  // namespace

#if defined(__SANITIZE_THREAD__)

// oneTBB is not built with ThreadSanitizer, which so does not see how it hands a task over. Here the helpers
// are threads of their own: everything that we share between them is watched.
void Workers::run(std::int64_t items, std::int32_t threads, void* work, Call call) {
  const auto team = std::make_shared<Team>(items, work, call);
  std::vector<std::jthread> helpers;
  for (std::int32_t helper = 1; helper < threads; ++helper) helpers.emplace_back([team] { team->help(); });
  team->lead();
}

#else

namespace {

// One arena for the process. A task_arena per call, and even a parallel_for on a host thread that ends, leave
// memory behind for good (12 KiB and 4 KiB with oneTBB 2021.8), and an arena larger than TBB's number of
// workers makes it print a warning; tasks enqueued from outside do neither.
tbb::task_arena& helpers() {
  static tbb::task_arena arena(std::max(tbb::info::default_concurrency() - 1, 1), 0);
  return arena;
}

// Tasks enqueued and not yet begun, of all calls. With all workers busy more tasks would only pile up.
std::atomic<std::int32_t> waiting_tasks{0};

}  // namespace

void Workers::run(std::int64_t items, std::int32_t threads, void* work, Call call) {
  const auto team = std::make_shared<Team>(items, work, call);
  // One processor has no worker beside the caller.
  const std::int32_t processors = tbb::info::default_concurrency();
  const std::int32_t wanted = std::min(threads, processors) - 1;
  for (std::int32_t helper = 0; helper < wanted && waiting_tasks < 4 * processors; ++helper) {
    ++waiting_tasks;
    helpers().enqueue([team] {
      --waiting_tasks;
      team->help();
    });
  }
  team->lead();
}

#endif

}  // namespace runmax
