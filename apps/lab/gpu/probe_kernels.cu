// Kernels that do one thing at the device's limit: copy, multiply-add, nothing.
#include "lab/gpu/probe_kernels.hpp"

namespace runmax::lab {
namespace {

constexpr int copy_threads = 512;
constexpr int copy_blocks_per_multiprocessor = 4;
constexpr int fma_threads = 256;
constexpr int fma_blocks_per_multiprocessor = 8;
constexpr int fma_chains = 8;
constexpr int fma_unroll = 32;

__global__ void __launch_bounds__(copy_threads)
    copy_probe(const float4* __restrict__ from, float4* __restrict__ to, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step)
    to[i] = from[i];
}

__device__ std::int64_t nanoseconds() {
  std::int64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value)::"memory");
  return value;
}

__global__ void __launch_bounds__(fma_threads)
    fma_probe(int rounds, float a, float b, float* sink, std::int64_t* clocks) {
  const bool reporter = blockIdx.x == 0 && threadIdx.x == 0;
  const std::int64_t cycle = clock64(), time = nanoseconds();
  float x[fma_chains];
#pragma unroll
  for (int chain = 0; chain < fma_chains; ++chain) x[chain] = static_cast<float>(threadIdx.x + chain);
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int step = 0; step < fma_unroll; ++step) {
#pragma unroll
      for (int chain = 0; chain < fma_chains; ++chain) x[chain] = fmaf(x[chain], a, b);
    }
  }
  float sum = 0;
#pragma unroll
  for (int chain = 0; chain < fma_chains; ++chain) sum += x[chain];
  // Never true for a = 0.75 and b = 0.25, but the compiler cannot know.
  if (sum < 0) *sink = sum;
  if (reporter) {
    clocks[0] = clock64() - cycle;
    clocks[1] = nanoseconds() - time;
  }
}

__global__ void empty_probe() {}

}  // namespace

int launch_copy_probe(const float* from, float* to, std::int64_t floats, int multiprocessors, void* stream) {
  copy_probe<<<multiprocessors * copy_blocks_per_multiprocessor, copy_threads, 0,
               static_cast<cudaStream_t>(stream)>>>(reinterpret_cast<const float4*>(from),
                                                    reinterpret_cast<float4*>(to), floats / 4);
  return cudaGetLastError();
}

int launch_fma_probe(int rounds, int multiprocessors, float* sink, std::int64_t* clocks, void* stream) {
  fma_probe<<<multiprocessors * fma_blocks_per_multiprocessor, fma_threads, 0,
              static_cast<cudaStream_t>(stream)>>>(rounds, 0.75f, 0.25f, sink, clocks);
  return cudaGetLastError();
}

double fma_probe_flops(int rounds, int multiprocessors) {
  return 2.0 * rounds * fma_unroll * fma_chains * fma_threads * static_cast<double>(multiprocessors) *
         fma_blocks_per_multiprocessor;
}

int launch_empty_probe(void* stream) {
  empty_probe<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>();
  return cudaGetLastError();
}

}  // namespace runmax::lab
