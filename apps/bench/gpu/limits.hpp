// What a GPU can do at most, looked at again beside every sample of a bench.
#pragma once

#include <memory>

#include "measure/cache_state.hpp"
#include "measure/gpu/gpu_clock.hpp"

namespace runmax::bench {

class GpuLimits {
 public:
  // `clock` must outlive it.
  static Result<std::unique_ptr<GpuLimits>> make(const DeviceFacts& facts, measure::GpuClock& clock);

  // Flops per second, each in about a millisecond: FP32 multiply-adds, fp16 products with FP32 accumulators.
  Result<double> fma();
  Result<double> tensor();

  // Bytes per second, read plus written, between two buffers beyond the L2.
  Result<double> copy();
  std::int64_t copy_bytes() const { return buffer_bytes_ / 2; }

  // Bytes per second of reading. Cold: more than the L2 holds. Warm: as many bytes as a workload has, again
  // and again, so that they come from the L2 where they fit.
  Result<double> read(double bytes, measure::CacheState cache);

 private:
  GpuLimits(const DeviceFacts& facts, measure::GpuClock& clock) : facts_(facts), clock_(clock) {}
  Result<double> rate(double work, const measure::GpuWork& launch);

  DeviceFacts facts_;
  measure::GpuClock& clock_;
  measure::MemoryLedger own_memory_;  // outlives what lies in it
  measure::Buffer buffer_, sink_;
  std::int64_t buffer_bytes_ = 0;
};

}  // namespace runmax::bench
