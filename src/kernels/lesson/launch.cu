// Launches of the lesson's CUDA kernels. Every one is checked; nothing is allocated.
#include "launch.hpp"

#include <cuda_runtime.h>

#include "naive/kernel.cuh"
#include "online/kernel.cuh"

namespace runmax {
namespace lesson {
namespace {

template <class Kernel>
cudaError_t read_kernel(const char* name, Kernel* kernel, int threads, int threads_per_multiprocessor,
                        KernelResources& resources) {
  cudaFuncAttributes attributes;
  cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) return error;
  int blocks = 0;
  error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0);
  if (error != cudaSuccess) return error;
  resources.name = name;
  resources.threads = threads;
  resources.shared_bytes = static_cast<int>(attributes.sharedSizeBytes);
  resources.registers = attributes.numRegs;
  resources.local_bytes = static_cast<int>(attributes.localSizeBytes);
  resources.blocks_per_multiprocessor = blocks;
  resources.occupancy = static_cast<double>(blocks) * threads / threads_per_multiprocessor;
  return cudaSuccess;
}

}  // namespace

int launch_naive(const float* q, const float* k, const float* v, float* o, float* scores, float* weights,
                 std::int64_t n, void* stream, float scale, float* lse) {
  using Config = NaiveConfig;
  if (cuda_naive_refuses(n, Config::head_dim) != nullptr) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  const cudaStream_t cuda_stream = static_cast<cudaStream_t>(stream);
  const unsigned tiles = static_cast<unsigned>(n / Config::tile);
  const dim3 square(Config::tile, Config::tile);

  naive_scores<Config><<<dim3(tiles, tiles), square, 0, cuda_stream>>>(q, k, scores, n, scale);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  naive_softmax<Config>
      <<<static_cast<unsigned>(n), Config::threads, 0, cuda_stream>>>(scores, weights, lse, n);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  naive_weighted_sum<Config>
      <<<dim3(Config::head_dim / Config::tile, tiles), square, 0, cuda_stream>>>(weights, v, o, n);
  return cudaGetLastError();
}

int launch_online(const float* q, const float* k, const float* v, float* o, std::int64_t n, void* stream,
                  float scale, float* lse) {
  using Config = OnlineConfig;
  if (cuda_online_refuses(n, Config::head_dim) != nullptr) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  const unsigned blocks = static_cast<unsigned>(n / Config::rows_per_block);
  attention_online<Config, Fold>
      <<<blocks, Config::threads, 0, static_cast<cudaStream_t>(stream)>>>(q, k, v, o, lse, n, scale, Fold());
  return cudaGetLastError();
}

int read_resources(KernelResources (&kernels)[kernel_count]) {
  int device = 0, threads = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device);
  if (error == cudaSuccess)
    error = read_kernel("naive_scores", naive_scores<NaiveConfig>, NaiveConfig::threads, threads, kernels[0]);
  if (error == cudaSuccess)
    error =
        read_kernel("naive_softmax", naive_softmax<NaiveConfig>, NaiveConfig::threads, threads, kernels[1]);
  if (error == cudaSuccess)
    error = read_kernel("naive_weighted_sum", naive_weighted_sum<NaiveConfig>, NaiveConfig::threads, threads,
                        kernels[2]);
  if (error == cudaSuccess)
    error = read_kernel("attention_online", attention_online<OnlineConfig, Fold>, OnlineConfig::threads,
                        threads, kernels[3]);
  return error;
}

const char* error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

}  // namespace lesson
}  // namespace runmax
