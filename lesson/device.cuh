// What the lesson's program needs of the CUDA runtime: device memory, a timer, and one way to fail.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "statistics.hpp"

namespace runmax {
namespace lesson {

enum ExitCode { exit_passed = 0, exit_failed = 1, exit_usage = 2, exit_environment = 4 };

// Ends the program with one line on stderr if `error` is not success.
inline void require(int error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "attention: %s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(exit_environment);
}

// Floats in device memory, poisoned with NaN at first, so that what a kernel fails to write is seen.
class DeviceFloats {
 public:
  explicit DeviceFloats(std::size_t count) : bytes_(count * sizeof(float)) {
    require(cudaMalloc(reinterpret_cast<void**>(&data_), bytes_), "allocating device memory");
    poison();
  }
  explicit DeviceFloats(const std::vector<float>& host) : DeviceFloats(host.size()) {
    require(cudaMemcpy(data_, host.data(), bytes_, cudaMemcpyHostToDevice), "copying to the device");
  }
  ~DeviceFloats() { (void)cudaFree(data_); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  // Every byte 0xff makes every float a NaN.
  void poison() { require(cudaMemset(data_, 0xff, bytes_), "filling device memory"); }

  std::vector<float> to_host() const {
    std::vector<float> host(bytes_ / sizeof(float));
    require(cudaMemcpy(host.data(), data_, bytes_, cudaMemcpyDeviceToHost), "copying to the host");
    return host;
  }

  float* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  float* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Times work on the default stream with CUDA events; summaries are of milliseconds of one run.
class Timer {
 public:
  // Twice the L2 cache: one sweep of writes leaves nothing of a path's memory there.
  explicit Timer(std::size_t l2_bytes)
      : flush_(std::max<std::size_t>(2 * l2_bytes, 1 << 20) / sizeof(float)) {
    require(cudaEventCreate(&begin_), "creating an event");
    require(cudaEventCreate(&end_), "creating an event");
  }
  ~Timer() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // The path ran just before. A sample is as many runs back to back as make about a millisecond, so that the
  // events' resolution does not matter.
  template <class Work>
  Summary warm(Work work) {
    (void)measure(1, work);
    const double once = measure(1, work);
    const int runs = static_cast<int>(std::min(std::max(std::ceil(1.0 / std::max(once, 1e-3)), 1.0), 200.0));
    std::vector<double> samples(warm_samples);
    for (double& sample : samples) sample = measure(runs, work) / runs;
    return summarize(std::move(samples));
  }

  // L2 holds nothing of the path's memory. The sweep keeps the device busy while the host enqueues, so the
  // host's latency is not measured either.
  template <class Work>
  Summary cold(Work work) {
    (void)measure(1, work);
    std::vector<double> samples(cold_samples);
    for (double& sample : samples) {
      flush_.poison();
      sample = measure(1, work);
    }
    return summarize(std::move(samples));
  }

 private:
  static constexpr int warm_samples = 21;
  static constexpr int cold_samples = 11;

  template <class Work>
  double measure(int runs, Work work) {
    require(cudaEventRecord(begin_), "recording an event");
    for (int run = 0; run < runs; ++run) require(work(), "launching a kernel");
    require(cudaEventRecord(end_), "recording an event");
    require(cudaEventSynchronize(end_), "running the kernels");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, begin_, end_), "reading the events");
    return ms;
  }

  DeviceFloats flush_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace lesson
}  // namespace runmax
