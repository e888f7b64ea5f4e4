// The rate of Hopper's tensor cores: wgmma on random fp16 data, A in registers, B in shared memory.
#include "device/mma/descriptor.cuh"
#include "device/ptx/wgmma.cuh"
#include "measure/gpu/probe_kernels.hpp"
#include "measure/gpu/random_halves.cuh"

namespace runmax::measure {
namespace {

constexpr int warpgroups = 2;
constexpr int threads = 128 * warpgroups;
constexpr int steps = 4;  // of 16 channels in a row of 64
constexpr int columns = 128;
constexpr int tile_bytes = columns * 64 * 2;

// Two warpgroups, each with an accumulator of 64 x 128 and a tile of its own to read.
__global__ void __launch_bounds__(threads, 1) wgmma_probe(int rounds, float* sink) {
  extern __shared__ __align__(1024) std::uint32_t tiles[];
  std::uint32_t seed = blockIdx.x * threads + threadIdx.x + 1;
  for (int i = threadIdx.x; i < warpgroups * tile_bytes / 4; i += threads) tiles[i] = random_halves(seed);
  std::uint32_t a[steps][4];
#pragma unroll
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int i = 0; i < 4; ++i) a[step][i] = random_halves(seed);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const std::uint64_t b = mma::k_major_descriptor(tiles + threadIdx.x / 128 * (tile_bytes / 4));
  float d[64] = {};
  for (int round = 0; round < rounds; ++round) {
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < steps; ++step)
      ptx::wgmma_m64n128k16_rs(d, a[step], mma::advance(b, 32 * step), true);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
  }
  ptx::wgmma_wait_group<0>();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) sum += d[i];
  if (sum == 12345.0f) *sink = sum;
}

}  // namespace

cudaError_t launch_wgmma_probe(int rounds, int multiprocessors, float* sink, void* stream) {
  wgmma_probe<<<multiprocessors, threads, warpgroups * tile_bytes, static_cast<cudaStream_t>(stream)>>>(
      rounds, sink);
  return cudaGetLastError();
}

double wgmma_probe_flops(int rounds, int multiprocessors) {
  return 2.0 * 64 * columns * 16 * steps * rounds * warpgroups * multiprocessors;
}

}  // namespace runmax::measure
