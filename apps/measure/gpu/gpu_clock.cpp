#include "measure/gpu/gpu_clock.hpp"

#include <algorithm>
#include <string>

#include "runtime/cuda_status.hpp"

namespace runmax::measure {

Result<std::unique_ptr<GpuClock>> GpuClock::make(const DeviceFacts& facts) {
  std::unique_ptr<GpuClock> clock(new GpuClock);
  if (Status status = cuda_status(cudaSetDevice(facts.device.index), "selecting the device"); !status.ok())
    return status;
  if (Status status = cuda_status(cudaStreamCreate(&clock->stream_), "making a stream"); !status.ok())
    return status;
  for (cudaEvent_t* event : {&clock->begin_, &clock->end_})
    if (Status status = cuda_status(cudaEventCreate(event), "making an event"); !status.ok()) return status;
  const std::int64_t cache = facts.l2_bytes > 0 ? facts.l2_bytes : std::int64_t{64} << 20;
  Result<Buffer> flush =
      Buffer::allocate(facts.device, static_cast<std::size_t>(2 * cache), clock->own_memory_);
  if (!flush.ok()) return flush.status();
  clock->flush_ = std::move(flush.value());
  return clock;
}

GpuClock::~GpuClock() {
  if (begin_) (void)cudaEventDestroy(begin_);
  if (end_) (void)cudaEventDestroy(end_);
  if (stream_) (void)cudaStreamDestroy(stream_);
}

Result<double> GpuClock::warm(const GpuWork& work, int runs, int lead) {
  for (int run = 0; run < lead; ++run)
    if (Status status = work(); !status.ok()) return status;
  if (Status status = cuda_status(cudaEventRecord(begin_, stream_), "recording an event"); !status.ok())
    return status;
  for (int run = 0; run < runs; ++run)
    if (Status status = work(); !status.ok()) return status;
  if (Status status = cuda_status(cudaEventRecord(end_, stream_), "recording an event"); !status.ok())
    return status;
  if (Status status = cuda_status(cudaEventSynchronize(end_), "running the kernels"); !status.ok())
    return status;
  float ms = 0;
  if (Status status = cuda_status(cudaEventElapsedTime(&ms, begin_, end_), "reading events"); !status.ok())
    return status;
  return 1e-3 * static_cast<double>(ms) / runs;
}

Result<double> GpuClock::cold(const GpuWork& work) {
  if (Status status = cuda_status(cudaMemsetAsync(flush_.data(), 0, flush_.bytes(), stream_), "flushing L2");
      !status.ok())
    return status;
  return warm(work, 1);
}

Status GpuClock::finish() { return cuda_status(cudaStreamSynchronize(stream_), "running the kernels"); }

int fewest_graph_runs(int nodes) { return std::max(1, nodes / 10); }

Result<std::unique_ptr<GraphSlope>> GraphSlope::capture(GpuClock& clock, const GpuWork& work, int nodes) {
  std::unique_ptr<GraphSlope> slope(new GraphSlope);
  slope->clock_ = &clock;
  slope->nodes_ = nodes;
  const int few = fewest_graph_runs(nodes);
  for (const auto& [runs, executable] :
       {std::pair{few, &slope->few_}, std::pair{few + nodes, &slope->many_}}) {
    if (Status status = cuda_status(cudaStreamBeginCapture(clock.stream(), cudaStreamCaptureModeThreadLocal),
                                    "beginning to capture a graph");
        !status.ok())
      return status;
    Status enqueued;
    for (int run = 0; run < runs && enqueued.ok(); ++run) enqueued = work();
    cudaGraph_t graph = nullptr;
    const Status captured = cuda_status(cudaStreamEndCapture(clock.stream(), &graph), "capturing a graph");
    if (!enqueued.ok()) return enqueued;
    if (!captured.ok()) return captured;
    const Status made = cuda_status(cudaGraphInstantiate(executable, graph, 0), "making a graph");
    (void)cudaGraphDestroy(graph);
    if (!made.ok()) return made;
    if (Status status = cuda_status(cudaGraphLaunch(*executable, clock.stream()), "launching a graph");
        !status.ok())
      return status;
  }
  if (Status status = clock.finish(); !status.ok()) return status;
  return slope;
}

GraphSlope::~GraphSlope() {
  if (few_) (void)cudaGraphExecDestroy(few_);
  if (many_) (void)cudaGraphExecDestroy(many_);
}

Result<double> GraphSlope::sample(int tries) {
  double least[2] = {0, 0};
  for (int attempt = 0; attempt < tries; ++attempt)
    for (const bool many : {false, true}) {
      const cudaGraphExec_t graph = many ? many_ : few_;
      Result<double> seconds = clock_->warm(
          [&] { return cuda_status(cudaGraphLaunch(graph, clock_->stream()), "launching a graph"); }, 1);
      if (!seconds.ok()) return seconds.status();
      least[many] = attempt == 0 ? seconds.value() : std::min(least[many], seconds.value());
    }
  return (least[1] - least[0]) / nodes_;
}

}  // namespace runmax::measure
