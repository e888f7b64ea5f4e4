// Kernels that do one thing at the device's limit: copy, read, multiply-add, mma.sync, nothing.
#include "measure/gpu/probe_kernels.hpp"

#include "measure/gpu/random_halves.cuh"

namespace runmax::measure {
namespace {

constexpr int copy_threads = 512;
constexpr int copy_blocks_per_multiprocessor = 4;
// Of a thread; more asked for at once hides more of the memory's latency.
constexpr int loads_in_flight = 8;
constexpr int fma_threads = 256;
constexpr int fma_blocks_per_multiprocessor = 8;
constexpr int fma_chains = 8;
constexpr int fma_unroll = 32;
constexpr int mma_threads = 256;
constexpr int mma_blocks_per_multiprocessor = 2;
constexpr int mma_chains = 4;

__global__ void __launch_bounds__(copy_threads)
    copy_probe(const float4* __restrict__ from, float4* __restrict__ to, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i + (loads_in_flight - 1) * step < count; i += loads_in_flight * step) {
    float4 values[loads_in_flight];
#pragma unroll
    for (int load = 0; load < loads_in_flight; ++load) values[load] = from[i + load * step];
#pragma unroll
    for (int load = 0; load < loads_in_flight; ++load) to[i + load * step] = values[load];
  }
  for (; i < count; i += step) to[i] = from[i];
}

// Sums what it reads, so that the loads stay; past the L1, in which a block would find its part again.
__global__ void __launch_bounds__(copy_threads)
    read_probe(const float4* from, std::int64_t count, int rounds, float* sink) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  float4 sum{0, 0, 0, 0};
  const auto add = [&](const float4& value) {
    sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
  };
  for (int round = 0; round < rounds; ++round) {
    std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + (loads_in_flight - 1) * step < count; i += loads_in_flight * step) {
      float4 values[loads_in_flight];
#pragma unroll
      for (int load = 0; load < loads_in_flight; ++load) values[load] = __ldcg(from + i + load * step);
#pragma unroll
      for (int load = 0; load < loads_in_flight; ++load) add(values[load]);
    }
    for (; i < count; i += step) add(__ldcg(from + i));
    // Nothing is kept from one round to the next.
    asm volatile("" ::: "memory");
  }
  // The buffer holds zeros, but the compiler cannot know.
  if (sum.x + sum.y + sum.z + sum.w != 0) *sink = sum.x;
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

// Eight warps a block, each with four independent accumulators.
__global__ void __launch_bounds__(mma_threads) mma_probe(int rounds, float* sink) {
  float d[mma_chains][4] = {};
  std::uint32_t a[4], b[2];
  std::uint32_t seed = blockIdx.x * mma_threads + threadIdx.x + 1;
  for (std::uint32_t& pair : a) pair = random_halves(seed);
  for (std::uint32_t& pair : b) pair = random_halves(seed);
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int chain = 0; chain < mma_chains; ++chain) {
      float(&o)[4] = d[chain];
#if __CUDA_ARCH__ >= 800
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
          "{%8, %9}, {%0, %1, %2, %3};"
          : "+f"(o[0]), "+f"(o[1]), "+f"(o[2]), "+f"(o[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
      for (int half = 0; half < 2; ++half)
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
            "{%0, %1, %2, %3};"
            : "+f"(o[0]), "+f"(o[1]), "+f"(o[2]), "+f"(o[3])
            : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
    }
  float sum = 0;
#pragma unroll
  for (int chain = 0; chain < mma_chains; ++chain) sum += d[chain][0] + d[chain][3];
  if (sum == 12345.0f) *sink = sum;
}

__global__ void empty_probe() {}

}  // namespace

cudaError_t launch_copy_probe(const float* from, float* to, std::int64_t floats, int multiprocessors,
                              void* stream) {
  copy_probe<<<multiprocessors * copy_blocks_per_multiprocessor, copy_threads, 0,
               static_cast<cudaStream_t>(stream)>>>(reinterpret_cast<const float4*>(from),
                                                    reinterpret_cast<float4*>(to), floats / 4);
  return cudaGetLastError();
}

cudaError_t launch_fma_probe(int rounds, int multiprocessors, float* sink, std::int64_t* clocks,
                             void* stream) {
  fma_probe<<<multiprocessors * fma_blocks_per_multiprocessor, fma_threads, 0,
              static_cast<cudaStream_t>(stream)>>>(rounds, 0.75f, 0.25f, sink, clocks);
  return cudaGetLastError();
}

double fma_probe_flops(int rounds, int multiprocessors) {
  return 2.0 * rounds * fma_unroll * fma_chains * fma_threads * static_cast<double>(multiprocessors) *
         fma_blocks_per_multiprocessor;
}

cudaError_t launch_read_probe(const float* from, std::int64_t floats, int rounds, int multiprocessors,
                              float* sink, void* stream) {
  read_probe<<<multiprocessors * copy_blocks_per_multiprocessor, copy_threads, 0,
               static_cast<cudaStream_t>(stream)>>>(reinterpret_cast<const float4*>(from), floats / 4, rounds,
                                                    sink);
  return cudaGetLastError();
}

cudaError_t launch_mma_probe(int rounds, int multiprocessors, float* sink, void* stream) {
  mma_probe<<<multiprocessors * mma_blocks_per_multiprocessor, mma_threads, 0,
              static_cast<cudaStream_t>(stream)>>>(rounds, sink);
  return cudaGetLastError();
}

double mma_probe_flops(int rounds, int multiprocessors) {
  // Each product of a warp is 16 x 8 x 16.
  return 2.0 * 16 * 8 * 16 * rounds * mma_chains * (mma_threads / 32.0) * multiprocessors *
         mma_blocks_per_multiprocessor;
}

cudaError_t launch_empty_probe(void* stream) {
  empty_probe<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>();
  return cudaGetLastError();
}

}  // namespace runmax::measure
