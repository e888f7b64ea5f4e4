// Counts the cycles of work that every multiprocessor does by itself: 32 warps, the same steps over and over.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

namespace runmax::bench {

inline constexpr int cycle_threads = 1024, cycle_rounds = 256;

// Work has a constructor from the thread's number, step(), and result(), a float that depends on every step.
template <class Work>
__global__ void __launch_bounds__(cycle_threads, 1) count_cycles(unsigned long long* cycles, float* sink) {
  __shared__ unsigned long long begin, end;
  if (threadIdx.x == 0) begin = ~0ULL, end = 0;
  Work work(static_cast<int>(threadIdx.x));
  __syncthreads();
  const long long started = clock64();
#pragma unroll 1
  for (int round = 0; round < cycle_rounds; ++round) work.step();
  const long long ended = clock64();
  if (work.result() == 12345.0f) *sink = 1.0f;
  atomicMin(&begin, static_cast<unsigned long long>(started));
  atomicMax(&end, static_cast<unsigned long long>(ended));
  __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = end - begin;
}

// Memory of the device that is freed with its owner.
template <class Element>
struct DeviceArray {
  Element* data = nullptr;
  explicit DeviceArray(std::size_t count) : error(cudaMalloc(&data, count * sizeof(Element))) {}
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data); }
  cudaError_t error;
};

// One sample for each multiprocessor and launch: how often in a cycle a thread's step was done, times
// `results_per_step` and the threads.
template <class Work>
cudaError_t sample_results_per_cycle(int multiprocessors, int results_per_step,
                                     std::vector<double>& samples) {
  std::vector<unsigned long long> cycles(static_cast<std::size_t>(multiprocessors));
  const DeviceArray<unsigned long long> on_device(cycles.size());
  const DeviceArray<float> sink(1);
  if (on_device.error != cudaSuccess) return on_device.error;
  if (sink.error != cudaSuccess) return sink.error;
  for (int launch = 0; launch < 6; ++launch) {
    count_cycles<Work><<<multiprocessors, cycle_threads>>>(on_device.data, sink.data);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
    if (const cudaError_t error = cudaMemcpy(cycles.data(), on_device.data, cycles.size() * sizeof cycles[0],
                                             cudaMemcpyDeviceToHost);
        error != cudaSuccess)
      return error;
    if (launch == 0) continue;  // fetches its instructions
    for (const unsigned long long count : cycles)
      samples.push_back(static_cast<double>(cycle_threads) * cycle_rounds * results_per_step /
                        static_cast<double>(count));
  }
  return cudaSuccess;
}

}  // namespace runmax::bench
