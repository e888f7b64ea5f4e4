// The CPU as a bench: the steady clock around one run.
#include <algorithm>
#include <chrono>

#include "lab/bench.hpp"
#include "measure/cpu_cache.hpp"
#include "measure/cpu_probes.hpp"

namespace runmax::lab {
namespace {

class CpuBench final : public Bench {
 public:
  CpuBench(const DeviceFacts& facts, int threads) : facts_(facts), threads_(threads) {}

  Result<Summary> time(const Work& work, CacheState cache, const std::vector<const Buffer*>& touched,
                       const SamplingRule& rule) override {
    using Clock = std::chrono::steady_clock;
    if (cache == CacheState::warm)
      if (Status status = work(); !status.ok()) return status;
    return repeat(rule, [&]() -> Result<double> {
      if (cache == CacheState::cold)
        for (const Buffer* buffer : touched) flush_lines(buffer->data(), buffer->bytes());
      const Clock::time_point begin = Clock::now();
      if (Status status = work(); !status.ok()) return status;
      return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    });
  }

  Status finish() override { return {}; }

  Result<MachineLimits> limits() override {
    MachineLimits limits;
    limits.cache_bytes = last_level_cache_bytes();
    // Two buffers of the cache's size hold twice what it can keep; a machine short of memory takes less.
    limits.copy_bytes = std::min(std::max<std::int64_t>(limits.cache_bytes, std::int64_t{128} << 20),
                                 std::max<std::int64_t>(facts_.free_bytes / 8, std::int64_t{1} << 20));
    {
      Result<CopyProbe> far = CopyProbe::make(static_cast<std::size_t>(limits.copy_bytes));
      if (!far.ok()) return far.status();
      limits.copy_rate = far.value().rate(threads_);
      limits.one_thread_copy_rate = threads_ == 1 ? limits.copy_rate.median : far.value().rate(1).median;
    }
    Result<CopyProbe> near = CopyProbe::make(static_cast<std::size_t>(limits.cache_bytes / 4));
    if (!near.ok()) return near.status();
    limits.cached_copy_rate = near.value().rate(threads_);
    limits.one_thread_fma_rate = cpu_fma_rate(1);
    limits.fma_rate = threads_ == 1 ? limits.one_thread_fma_rate : cpu_fma_rate(threads_);
    limits.clock_hz = cpu_clock_hz();
    limits.empty_launch_ms = cpu_empty_loop_ms(threads_);
    return limits;
  }

  Result<double> fma_rate() override { return cpu_fma_rate(threads_); }

  std::string method(CacheState cache) const override {
    return cache == CacheState::cold
               ? "steady clock around one run; before it every cache line of inputs, output and workspace is "
                 "flushed"
               : "steady clock around one run, straight after another";
  }

  std::string driver() const override { return "none"; }
  Stream stream() const override { return nullptr; }

 private:
  DeviceFacts facts_;
  int threads_;
};

}  // namespace

std::unique_ptr<Bench> make_cpu_bench(const DeviceFacts& facts, int threads) {
  return std::make_unique<CpuBench>(facts, threads);
}

}  // namespace runmax::lab
