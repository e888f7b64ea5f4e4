// Times work on one stream of a GPU: by CUDA events around back-to-back runs, around one run after the L2 was
// overwritten, and by replaying graphs of many runs.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <utility>

#include "measure/memory.hpp"

namespace runmax::measure {

// Enqueues work on the clock's stream.
using GpuWork = std::function<Status()>;

class GpuClock {
 public:
  // Makes the device of `facts` current for this thread.
  static Result<std::unique_ptr<GpuClock>> make(const DeviceFacts& facts);
  ~GpuClock();
  GpuClock(const GpuClock&) = delete;
  GpuClock& operator=(const GpuClock&) = delete;

  cudaStream_t stream() const { return stream_; }

  // Seconds of one run, of `runs` back to back, straight after `lead` runs that are not timed.
  Result<double> warm(const GpuWork& work, int runs, int lead = 0);

  // Seconds of one run. Before it a buffer of twice the L2 is overwritten, which also keeps the device busy
  // while the host enqueues, so that its latency is not measured.
  Result<double> cold(const GpuWork& work);

  // Waits for all enqueued work.
  Status finish();

 private:
  GpuClock() = default;

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  MemoryLedger own_memory_;  // outlives what lies in it
  Buffer flush_;
};

// Two graphs of runs one after another, one with `nodes` more than the other: the difference of their times
// over `nodes` is what a run takes when nothing of a launch but the step from node to node is left.
class GraphSlope {
 public:
  // Captures `work`, which may enqueue several kernels; each run depends on the one before it.
  static Result<std::unique_ptr<GraphSlope>> capture(GpuClock& clock, const GpuWork& work, int nodes);
  ~GraphSlope();
  GraphSlope(const GraphSlope&) = delete;
  GraphSlope& operator=(const GraphSlope&) = delete;

  int nodes() const { return nodes_; }

  // Seconds of one run: the least of `tries` replays of either graph.
  Result<double> sample(int tries);

 private:
  GraphSlope() = default;

  GpuClock* clock_ = nullptr;
  int nodes_ = 0;
  cudaGraphExec_t few_ = nullptr, many_ = nullptr;
};

// How many runs the smaller of the two graphs holds.
int fewest_graph_runs(int nodes);

}  // namespace runmax::measure
