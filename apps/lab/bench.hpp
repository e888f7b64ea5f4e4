// A device as the lab sees it: it times work with cold or warm caches and knows what the device can do at
// most.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "measure/cache_state.hpp"
#include "measure/memory.hpp"
#include "measure/sampling.hpp"
#include "runmax/runmax.hpp"

namespace runmax::lab {

// Samples, memory, tables: what every command that measures speaks of.
using namespace measure;

// What the device can do at most, measured in this run. Rates are per second, times in milliseconds.
struct MachineLimits {
  Summary copy_rate;            // bytes read plus bytes written, beyond every cache
  std::int64_t copy_bytes = 0;  // size of one of the two buffers
  Summary cached_copy_rate;     // the same inside half of the last-level cache
  std::int64_t cache_bytes = 0;
  double fma_rate = 0;              // FP32 flops per second, an FMA is two
  double one_thread_copy_rate = 0;  // CPU only
  double one_thread_fma_rate = 0;   // CPU only
  double clock_hz = 0;              // of a core or multiprocessor while it computes; 0 unknown
  Summary empty_launch_ms;          // an empty kernel; on the CPU an empty parallel loop
};

class Bench {
 public:
  virtual ~Bench() = default;

  // Enqueues work (on the CPU: does it) on stream().
  using Work = std::function<Status()>;

  // Milliseconds of one run of `work`. `touched` is the memory that the work reads and writes.
  virtual Result<Summary> time(const Work& work, CacheState cache, const std::vector<const Buffer*>& touched,
                               const SamplingRule& rule) = 0;

  // Waits for all enqueued work.
  virtual Status finish() = 0;

  virtual Result<MachineLimits> limits() = 0;

  // The FMA rate alone, measured again.
  virtual Result<double> fma_rate() = 0;

  // How times are taken, in one sentence for each cache state.
  virtual std::string method(CacheState cache) const = 0;

  virtual std::string driver() const = 0;
  virtual Stream stream() const = 0;
};

// `threads` limits a CPU's threads; at least 1.
std::unique_ptr<Bench> make_cpu_bench(const DeviceFacts& facts, int threads);

// no_device in a build without CUDA.
Result<std::unique_ptr<Bench>> make_cuda_bench(const DeviceFacts& facts);

}  // namespace runmax::lab
