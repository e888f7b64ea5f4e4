#include "measure/cpu_probes.hpp"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "measure/cpu_cache.hpp"
#include "measure/fma_loop.hpp"
#include "measure/read_loop.hpp"

namespace runmax::measure {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Seconds from the common start of `work(thread)` on all threads to the end of the last.
double run_together(int threads, const std::function<void(int)>& work) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> helpers;
  for (int t = 1; t < threads; ++t)
    helpers.emplace_back([&, t] {
      ++ready;
      while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
      work(t);
    });
  while (ready.load() < threads - 1) std::this_thread::yield();
  const Clock::time_point begin = Clock::now();
  go.store(true, std::memory_order_release);
  work(0);
  for (std::thread& helper : helpers) helper.join();
  return seconds_between(begin, Clock::now());
}

// Makes the compiler believe that somebody looks at the value.
void keep(float value) { asm volatile("" : : "x"(value)); }

}  // namespace

Result<CopyProbe> CopyProbe::make(std::size_t bytes) {
  CopyProbe probe;
  probe.ledger_ = std::make_unique<MemoryLedger>();
  Result<Buffer> from = Buffer::allocate({}, bytes, *probe.ledger_);
  if (!from.ok()) return from.status();
  Result<Buffer> to = Buffer::allocate({}, bytes, *probe.ledger_);
  if (!to.ok()) return to.status();
  probe.from_ = std::move(from.value());
  probe.to_ = std::move(to.value());
  // Untouched pages would all be the same zero page.
  std::memset(probe.from_.data(), 1, bytes);
  std::memset(probe.to_.data(), 2, bytes);
  return probe;
}

Summary CopyProbe::rate(int threads) const {
  const SamplingRule rule{
      .enough_samples = 5, .enough_ms = 100, .least_samples = 3, .patience_ms = 300, .limit_ms = 3000};
  std::vector<double> rates;
  double total_ms = 0;
  while (!enough(rule, static_cast<int>(rates.size()), total_ms)) {
    const Clock::time_point begin = Clock::now();
    rates.push_back(sample(threads));
    total_ms += seconds_between(begin, Clock::now()) * 1e3;
  }
  return summarize(std::move(rates));
}

double CopyProbe::sample(int threads) const {
  const std::size_t bytes = from_.bytes();
  const char* source = static_cast<const char*>(from_.data());
  char* target = static_cast<char*>(to_.data());
  const std::size_t part = bytes / static_cast<std::size_t>(threads);
  // Small sets are copied often enough that starting threads does not count.
  const std::size_t rounds = std::max<std::size_t>(1, (std::size_t{256} << 20) / bytes);
  const double seconds = run_together(threads, [&](int t) {
    const std::size_t at = part * static_cast<std::size_t>(t);
    for (std::size_t round = 0; round < rounds; ++round) {
      std::memcpy(target + at, source + at, part);
      // The copy must happen each time: the compiler may not see that memory is unchanged.
      asm volatile("" : : "r"(target + at) : "memory");
    }
  });
  return 2.0 * static_cast<double>(part) * static_cast<double>(threads) * static_cast<double>(rounds) /
         seconds;
}

Result<ReadProbe> ReadProbe::make(std::size_t bytes) {
  ReadProbe probe;
  probe.ledger_ = std::make_unique<MemoryLedger>();
  Result<Buffer> buffer = Buffer::allocate({}, bytes, *probe.ledger_);
  if (!buffer.ok()) return buffer.status();
  probe.buffer_ = std::move(buffer.value());
  std::memset(probe.buffer_.data(), 0, bytes);
  return probe;
}

double ReadProbe::sample(int threads, CacheState cache) const {
  if (cache == CacheState::cold) {
    double best = 0;
    for (const bool prefetch : {false, true}) {
      flush_lines(buffer_.data(), buffer_.bytes());
      best = std::max(best, pass(threads, prefetch, 1));
    }
    return best;
  }
  // Small sets are read often enough that starting threads does not count.
  const std::size_t rounds = std::max<std::size_t>(1, (std::size_t{32} << 20) / buffer_.bytes());
  pass(threads, false, 1);
  return std::max(pass(threads, false, rounds), pass(threads, true, rounds));
}

double ReadProbe::pass(int threads, bool prefetch, std::size_t rounds) const {
  const std::size_t floats = buffer_.bytes() / sizeof(float);
  const std::size_t part = floats / static_cast<std::size_t>(threads);
  const double seconds = run_together(threads, [&](int t) {
    const float* const data = buffer_.floats() + part * static_cast<std::size_t>(t);
    for (std::size_t round = 0; round < rounds; ++round) keep(read_loop(data, part, prefetch));
  });
  return static_cast<double>(part * sizeof(float)) * static_cast<double>(threads) *
         static_cast<double>(rounds) / seconds;
}

double cpu_fma_rate(int threads, FmaEffort effort) {
  constexpr double piece_seconds = 2e-4;
  std::int64_t rounds = 256;
  for (;; rounds *= 2) {
    const Clock::time_point begin = Clock::now();
    keep(fma_loop(rounds).value);
    if (seconds_between(begin, Clock::now()) > piece_seconds) break;
  }
  double best = 0;
  for (int trial = 0; trial < effort.trials; ++trial) {
    std::vector<double> rates(static_cast<std::size_t>(threads));
    run_together(threads, [&](int t) {
      std::vector<double> samples;
      for (int piece = 0; piece < effort.pieces; ++piece) {
        const Clock::time_point begin = Clock::now();
        const FmaWork work = fma_loop(rounds);
        samples.push_back(work.flops / seconds_between(begin, Clock::now()));
        keep(work.value);
      }
      rates[static_cast<std::size_t>(t)] = summarize(std::move(samples)).median;
    });
    best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
  }
  return best;
}

double cpu_clock_hz() {
  // Short trials, so that some of them run without another program in between.
  constexpr std::int64_t steps = 1 << 18;
  double best = 0;
  for (int trial = 0; trial < 50; ++trial) {
    std::int64_t value = trial;
    const Clock::time_point begin = Clock::now();
    for (std::int64_t step = 0; step < steps; ++step) {
      value += step;
      // Each addition must wait for the one before.
      asm volatile("" : "+r"(value));
    }
    best = std::max(best, static_cast<double>(steps) / seconds_between(begin, Clock::now()));
  }
  return best;
}

Summary cpu_empty_loop_ms(int threads) {
  tbb::task_arena arena(std::max(threads, 1));
  std::vector<double> samples;
  arena.execute([&] {
    for (int sample = 0; sample < 200; ++sample) {
      const Clock::time_point begin = Clock::now();
      tbb::parallel_for(0, threads, [](int) {});
      samples.push_back(seconds_between(begin, Clock::now()) * 1e3);
    }
  });
  return summarize(std::move(samples));
}

}  // namespace runmax::measure
