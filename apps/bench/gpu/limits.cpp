#include "bench/gpu/limits.hpp"

#include <algorithm>
#include <vector>

#include "measure/gpu/probe_kernels.hpp"
#include "runtime/cuda_status.hpp"

namespace runmax::bench {
namespace {

using measure::Buffer;

// Rounds that take about a millisecond on the devices of today.
constexpr int fma_rounds = 400, wgmma_rounds = 3000, mma_rounds = 3000;
// A pass over less than this says more about starting a kernel than about reading.
constexpr std::int64_t least_read_bytes = std::int64_t{8} << 20;
constexpr double read_bytes_a_sample = 2e9;

}  // namespace

Result<std::unique_ptr<GpuLimits>> GpuLimits::make(const DeviceFacts& facts, measure::GpuClock& clock) {
  std::unique_ptr<GpuLimits> limits(new GpuLimits(facts, clock));
  limits->buffer_bytes_ =
      std::min(std::max<std::int64_t>(16 * facts.l2_bytes, std::int64_t{512} << 20), facts.free_bytes / 8) /
      64 * 64;
  for (const auto& [buffer, bytes] :
       {std::pair{&limits->buffer_, limits->buffer_bytes_}, std::pair{&limits->sink_, std::int64_t{64}}}) {
    Result<Buffer> made =
        Buffer::allocate(facts.device, static_cast<std::size_t>(bytes), limits->own_memory_);
    if (!made.ok()) return made.status();
    *buffer = std::move(made.value());
    if (Status status = cuda_status(cudaMemsetAsync(buffer->data(), 0, buffer->bytes(), clock.stream()),
                                    "clearing a buffer");
        !status.ok())
      return status;
  }
  if (Status status = clock.finish(); !status.ok()) return status;
  return limits;
}

// Work per second. One untimed run comes first: it also brings the clocks up.
Result<double> GpuLimits::rate(double work, const measure::GpuWork& launch) {
  if (Result<double> untimed = clock_.warm(launch, 1); !untimed.ok()) return untimed.status();
  Result<double> seconds = clock_.warm(launch, 1);
  if (!seconds.ok()) return seconds.status();
  return work / seconds.value();
}

Result<double> GpuLimits::fma() {
  // The probe also says what block 0 took; nobody asks here.
  auto* clocks = static_cast<std::int64_t*>(sink_.data()) + 2;
  return rate(measure::fma_probe_flops(fma_rounds, facts_.multiprocessors), [&] {
    return cuda_status(measure::launch_fma_probe(fma_rounds, facts_.multiprocessors, sink_.floats(), clocks,
                                                 clock_.stream()),
                       "launching multiply-adds");
  });
}

Result<double> GpuLimits::tensor() {
  const bool wgmma = facts_.compute_capability == 90;
  const int rounds = wgmma ? wgmma_rounds : mma_rounds;
  const auto launch = wgmma ? measure::launch_wgmma_probe : measure::launch_mma_probe;
  const auto flops = wgmma ? measure::wgmma_probe_flops : measure::mma_probe_flops;
  return rate(flops(rounds, facts_.multiprocessors), [&] {
    return cuda_status(launch(rounds, facts_.multiprocessors, sink_.floats(), clock_.stream()),
                       "launching tensor-core products");
  });
}

Result<double> GpuLimits::copy() {
  float* from = buffer_.floats();
  return rate(2.0 * static_cast<double>(copy_bytes()), [&] {
    return cuda_status(measure::launch_copy_probe(from, from + copy_bytes() / 4, copy_bytes() / 4,
                                                  facts_.multiprocessors, clock_.stream()),
                       "launching a copy");
  });
}

Result<double> GpuLimits::read(double bytes, measure::CacheState cache) {
  const std::int64_t wanted =
      cache == measure::CacheState::cold ? buffer_bytes_ : static_cast<std::int64_t>(bytes);
  const std::int64_t size =
      std::clamp(wanted, std::min(least_read_bytes, buffer_bytes_), buffer_bytes_) / 64 * 64;
  const int rounds = std::max(1, static_cast<int>(read_bytes_a_sample / static_cast<double>(size)));
  return rate(static_cast<double>(size) * rounds, [&] {
    return cuda_status(measure::launch_read_probe(buffer_.floats(), size / 4, rounds, facts_.multiprocessors,
                                                  sink_.floats(), clock_.stream()),
                       "launching a read");
  });
}

}  // namespace runmax::bench
