// A GPU as a bench: CUDA events around runs on one stream.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "lab/bench.hpp"
#include "measure/gpu/gpu_clock.hpp"
#include "measure/gpu/probe_kernels.hpp"
#include "runtime/cuda_status.hpp"

namespace runmax::lab {
namespace {

class CudaBench final : public Bench {
 public:
  explicit CudaBench(const DeviceFacts& facts) : facts_(facts) {}

  Status open() {
    Result<std::unique_ptr<GpuClock>> clock = GpuClock::make(facts_);
    if (!clock.ok()) return clock.status();
    clock_ = std::move(clock.value());
    return {};
  }

  Result<Summary> time(const Work& work, CacheState cache, const std::vector<const Buffer*>&,
                       const SamplingRule& rule) override {
    const auto in_ms = [](Result<double> seconds) -> Result<double> {
      if (!seconds.ok()) return seconds.status();
      return 1e3 * seconds.value();
    };
    if (cache == CacheState::cold) return repeat(rule, [&] { return in_ms(clock_->cold(work)); });
    Result<double> once = in_ms(clock_->warm(work, 1));
    if (once.ok()) once = in_ms(clock_->warm(work, 1));
    if (!once.ok()) return once.status();
    // A sample of short kernels holds many runs: an event's resolution is about half a microsecond.
    const int runs = static_cast<int>(std::clamp(std::ceil(1.0 / std::max(once.value(), 1e-3)), 1.0, 200.0));
    SamplingRule scaled = rule;
    scaled.enough_ms = std::max(rule.enough_ms / runs, 1e-3);
    scaled.enough_samples = std::max(rule.enough_samples, 21);
    return repeat(scaled, [&] { return in_ms(clock_->warm(work, runs)); });
  }

  Status finish() override { return clock_->finish(); }

  Result<MachineLimits> limits() override {
    MachineLimits limits;
    limits.cache_bytes = cache_bytes();
    limits.copy_bytes = std::max<std::int64_t>(4 * limits.cache_bytes, std::int64_t{512} << 20);
    limits.copy_bytes = std::min(limits.copy_bytes, facts_.free_bytes / 8) / 16 * 16;
    Result<Summary> far = copy_rate(limits.copy_bytes, CacheState::cold);
    if (!far.ok()) return far.status();
    limits.copy_rate = far.value();
    Result<Summary> near = copy_rate(limits.cache_bytes / 4 / 16 * 16, CacheState::warm);
    if (!near.ok()) return near.status();
    limits.cached_copy_rate = near.value();
    if (Status status = measure_fma(limits); !status.ok()) return status;
    Result<Summary> empty =
        time([&] { return cuda_status(launch_empty_probe(stream()), "launching an empty kernel"); },
             CacheState::warm, {}, {});
    if (!empty.ok()) return empty.status();
    limits.empty_launch_ms = empty.value();
    return limits;
  }

  Result<double> fma_rate() override {
    MachineLimits limits;
    if (Status status = measure_fma(limits); !status.ok()) return status;
    return limits.fma_rate;
  }

  std::string method(CacheState cache) const override {
    return cache == CacheState::cold
               ? "CUDA events around one run; before it a buffer of twice the L2 cache is overwritten"
               : "CUDA events around back-to-back runs of at least about 1 ms together, divided by their "
                 "number";
  }

  std::string driver() const override {
    std::string version;
    std::ifstream file("/sys/module/nvidia/version");
    file >> version;
    const auto dotted = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
    return (version.empty() ? "" : version + ", ") + std::string("CUDA ") + dotted(facts_.driver_version) +
           " driver, " + dotted(facts_.runtime_version) + " runtime";
  }

  Stream stream() const override { return clock_->stream(); }

 private:
  std::int64_t cache_bytes() const { return facts_.l2_bytes > 0 ? facts_.l2_bytes : std::int64_t{64} << 20; }

  Result<Summary> copy_rate(std::int64_t bytes, CacheState cache) {
    Result<Buffer> from = Buffer::allocate(facts_.device, static_cast<std::size_t>(bytes), own_memory_);
    if (!from.ok()) return from.status();
    Result<Buffer> to = Buffer::allocate(facts_.device, static_cast<std::size_t>(bytes), own_memory_);
    if (!to.ok()) return to.status();
    for (const Buffer* buffer : {&from.value(), &to.value()})
      if (Status status =
              cuda_status(cudaMemsetAsync(buffer->data(), 0, buffer->bytes(), clock_->stream()), "clearing");
          !status.ok())
        return status;
    Result<Summary> ms = time(
        [&] {
          return cuda_status(launch_copy_probe(from.value().floats(), to.value().floats(), bytes / 4,
                                               facts_.multiprocessors, stream()),
                             "launching a copy");
        },
        cache, {}, {.enough_samples = 15, .enough_ms = 20});
    if (!ms.ok()) return ms.status();
    Summary rate = ms.value();
    rate.median = 2.0 * static_cast<double>(bytes) / (ms.value().median * 1e-3);
    rate.fastest = 2.0 * static_cast<double>(bytes) / (ms.value().fastest * 1e-3);
    return rate;
  }

  Status measure_fma(MachineLimits& limits) {
    Result<Buffer> sink = Buffer::allocate(facts_.device, sizeof(float), own_memory_);
    if (!sink.ok()) return sink.status();
    Result<Buffer> clocks = Buffer::allocate(facts_.device, 2 * sizeof(std::int64_t), own_memory_);
    if (!clocks.ok()) return clocks.status();
    constexpr int rounds = 400;
    Result<Summary> ms = time(
        [&] {
          return cuda_status(launch_fma_probe(rounds, facts_.multiprocessors, sink.value().floats(),
                                              static_cast<std::int64_t*>(clocks.value().data()), stream()),
                             "launching multiply-adds");
        },
        CacheState::warm, {}, {.enough_samples = 21, .enough_ms = 50});
    if (!ms.ok()) return ms.status();
    // A peak is a maximum: the fastest sample.
    limits.fma_rate = fma_probe_flops(rounds, facts_.multiprocessors) / (ms.value().fastest * 1e-3);
    std::int64_t measured[2] = {0, 0};
    if (Status status = clocks.value().to_host(measured, sizeof measured); !status.ok()) return status;
    if (measured[1] > 0)
      limits.clock_hz = static_cast<double>(measured[0]) / static_cast<double>(measured[1]) * 1e9;
    return {};
  }

  DeviceFacts facts_;
  MemoryLedger own_memory_;
  std::unique_ptr<GpuClock> clock_;
};

}  // namespace

Result<std::unique_ptr<Bench>> make_cuda_bench(const DeviceFacts& facts) {
  auto bench = std::make_unique<CudaBench>(facts);
  if (Status status = bench->open(); !status.ok()) return status;
  return std::unique_ptr<Bench>(std::move(bench));
}

}  // namespace runmax::lab
