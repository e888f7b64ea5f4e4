// Launches of the lesson's CUDA kernels. Every one is checked; nothing is allocated.
#include "launch.hpp"

#include <cuda_runtime.h>

#include "naive/kernel.cuh"
#include "online/kernel.cuh"

namespace runmax {
namespace lesson {
namespace {

// What is known before asking: name, threads, planned shared bytes.
template <class Kernel>
cudaError_t read_kernel(Kernel* kernel, KernelResources known, int threads_per_multiprocessor,
                        KernelResources& resources) {
  cudaFuncAttributes attributes;
  cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) return error;
  error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&known.blocks_per_multiprocessor, kernel,
                                                        known.threads, 0);
  if (error != cudaSuccess) return error;
  known.shared_bytes = static_cast<int>(attributes.sharedSizeBytes);
  known.registers = attributes.numRegs;
  known.local_bytes = static_cast<int>(attributes.localSizeBytes);
  known.occupancy =
      static_cast<double>(known.blocks_per_multiprocessor) * known.threads / threads_per_multiprocessor;
  resources = known;
  return cudaSuccess;
}

KernelResources known(const char* name, int threads, bool is_online, int shared_floats) {
  KernelResources resources{};
  resources.name = name;
  resources.threads = threads;
  resources.is_online = is_online;
  resources.planned_shared_bytes = shared_floats * static_cast<int>(sizeof(float));
  return resources;
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
  using Naive = NaiveConfig;
  using Online = OnlineConfig;
  int device = 0, threads = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device);
  if (error == cudaSuccess)
    error = read_kernel(naive_scores<Naive>,
                        known("naive_scores", Naive::threads, false, Naive::scores_shared_floats), threads,
                        kernels[0]);
  if (error == cudaSuccess)
    error = read_kernel(naive_softmax<Naive>,
                        known("naive_softmax", Naive::threads, false, Naive::softmax_shared_floats), threads,
                        kernels[1]);
  if (error == cudaSuccess)
    error = read_kernel(naive_weighted_sum<Naive>,
                        known("naive_weighted_sum", Naive::threads, false, Naive::weighted_sum_shared_floats),
                        threads, kernels[2]);
  if (error == cudaSuccess)
    error = read_kernel(attention_online<Online, Fold>,
                        known("attention_online", Online::threads, true, Online::shared_floats), threads,
                        kernels[3]);
  return error;
}

const char* error_text(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

}  // namespace lesson
}  // namespace runmax
