// What a cluster costs to launch, and what its blocks can move between their shared memories.
#include <algorithm>
#include <cstdint>

#include "bench/ceilings/ceilings.hpp"
#include "bench/cycle_count.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/cluster.cuh"

namespace runmax::bench {
namespace {

constexpr int threads = 256, cluster = 8, exchange_bytes = 64 * 1024, exchanges = 200;

__global__ void barrier_kernel(bool in_cluster) {
  if (!in_cluster) return;
  ptx::cluster_arrive_relaxed();
  ptx::cluster_wait();
}

// Microseconds of a node: the difference of two graphs of dependent nodes over what one has more.
cudaError_t node_time(cudaStream_t stream, int blocks_a_cluster, double& microseconds) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(std::max(blocks_a_cluster, 1)), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(64);
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = blocks_a_cluster > 0 ? 1 : 0;
  constexpr int few = 20, more = 200;
  float times[2] = {};
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaError_t error = cudaEventCreate(&begin);
  if (error == cudaSuccess) error = cudaEventCreate(&end);
  for (const bool many : {false, true}) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    if (error == cudaSuccess) error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    for (int node = 0; node < few + (many ? more : 0) && error == cudaSuccess; ++node)
      error = cudaLaunchKernelEx(&config, barrier_kernel, blocks_a_cluster > 0);
    if (error == cudaSuccess) error = cudaStreamEndCapture(stream, &graph);
    if (error == cudaSuccess) error = cudaGraphInstantiate(&executable, graph, 0);
    for (int replay = 0; replay < 5 && error == cudaSuccess; ++replay) {
      cudaEventRecord(begin, stream);
      error = cudaGraphLaunch(executable, stream);
      cudaEventRecord(end, stream);
      if (error == cudaSuccess) error = cudaEventSynchronize(end);
      float ms = 0;
      if (error == cudaSuccess) error = cudaEventElapsedTime(&ms, begin, end);
      times[many] = replay == 0 ? ms : std::min(times[many], ms);
    }
    if (executable) cudaGraphExecDestroy(executable);
    if (graph) cudaGraphDestroy(graph);
  }
  if (begin) cudaEventDestroy(begin);
  if (end) cudaEventDestroy(end);
  microseconds = 1e3 * static_cast<double>(times[1] - times[0]) / more;
  return error;
}

enum class Way { load, store_async, bulk_copy };

__device__ float4 load_remote(std::uint32_t address) {
  float4 x;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address)
               : "memory");
  return x;
}

__device__ void copy_to_block(std::uint32_t address, const void* shared, std::uint32_t bytes,
                              std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          address),
      "r"(ptx::shared_address(shared)), "r"(bytes), "r"(barrier)
      : "memory");
}

// Every block moves its 64 KB to or from its neighbour, over and over; a block that is sent to waits for all
// of it.
template <Way way>
__global__ void __cluster_dims__(cluster, 1, 1) __launch_bounds__(threads, 1)
    exchange_kernel(double* bytes_per_cycle, float* sink) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ std::uint64_t arrived[2];
  unsigned char* incoming = memory + exchange_bytes;
  for (unsigned i = threadIdx.x; i < 2 * exchange_bytes / 4; i += threads)
    reinterpret_cast<float*>(memory)[i] = static_cast<float>(i);
  if (threadIdx.x == 0) {
    for (std::uint64_t& barrier : arrived) ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init();
  }
  ptx::fence_proxy_async_shared();
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
  ptx::cluster_wait();
  const std::uint32_t neighbour = (blockIdx.x + 1) % cluster;
  const std::uint32_t to = ptx::address_in_block(way == Way::load ? memory : incoming, neighbour);
  float sum = 0.0f;
  const long long begin = clock64();
  for (int exchange = 0; exchange < exchanges; ++exchange) {
    if constexpr (way == Way::load) {
#pragma unroll
      for (int i = 0; i < exchange_bytes / (16 * threads); ++i) {
        // Another place in every round: loads that give the same again would be done once.
        const float4 x = load_remote(to + ((i * threads + threadIdx.x + exchange) * 16) % exchange_bytes);
        sum += x.x + x.y + x.z + x.w;
      }
    } else {
      // Two barriers take turns: a neighbour may be one exchange ahead.
      const std::uint32_t barrier = ptx::address_in_block(&arrived[exchange % 2], neighbour);
      if (threadIdx.x == 0) ptx::mbarrier_arrive_expect_tx(&arrived[exchange % 2], exchange_bytes);
      if constexpr (way == Way::store_async) {
        for (int i = 0; i < exchange_bytes / (16 * threads); ++i)
          ptx::store_async(to + (i * threads + threadIdx.x) * 16,
                           reinterpret_cast<const float4*>(memory)[i * threads + threadIdx.x], barrier);
      } else if (threadIdx.x == 0) {
        copy_to_block(to, memory, exchange_bytes, barrier);
      }
      ptx::mbarrier_wait(&arrived[exchange % 2], exchange / 2 % 2, "the neighbour's bytes");
    }
  }
  __syncthreads();
  if (threadIdx.x == 0)
    bytes_per_cycle[blockIdx.x] =
        static_cast<double>(exchanges) * exchange_bytes / static_cast<double>(clock64() - begin);
  if (sum == 12345.0f) *sink = sum;
  ptx::cluster_arrive_relaxed();
  ptx::cluster_wait();
}

// Cycles of one load of another block's shared memory, each at an address that the last one gave; or of the
// own.
template <bool remote>
__global__ void __cluster_dims__(cluster, 1, 1) latency_kernel(double* cycles) {
  __shared__ std::uint32_t next;
  if (threadIdx.x == 0) next = 0;
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
  ptx::cluster_wait();
  constexpr int loads = 512;
  const std::uint32_t address = ptx::address_in_block(&next, (blockIdx.x + remote) % cluster);
  std::uint32_t offset = 0;
  const long long begin = clock64();
#pragma unroll 8
  for (int load = 0; load < loads; ++load) {
    if constexpr (remote)
      asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(offset) : "r"(address + offset) : "memory");
    else
      asm volatile("ld.shared.u32 %0, [%1];"
                   : "=r"(offset)
                   : "r"(ptx::shared_address(&next) + offset)
                   : "memory");
  }
  const long long end = clock64() + offset;
  if (threadIdx.x == 0) cycles[blockIdx.x] = static_cast<double>(end - begin) / loads;
  ptx::cluster_arrive_relaxed();
  ptx::cluster_wait();
}

// One sample for each block and launch.
template <class Launch>
cudaError_t sample(int blocks, Launch launch, std::vector<double>& samples) {
  const DeviceArray<double> on_device(static_cast<std::size_t>(blocks));
  if (on_device.error != cudaSuccess) return on_device.error;
  std::vector<double> values(static_cast<std::size_t>(blocks));
  for (int round = 0; round < 4; ++round) {
    launch(on_device.data);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
    if (const cudaError_t error =
            cudaMemcpy(values.data(), on_device.data, values.size() * sizeof(double), cudaMemcpyDeviceToHost);
        error != cudaSuccess)
      return error;
    if (round > 0) samples.insert(samples.end(), values.begin(), values.end());
  }
  return cudaSuccess;
}

template <Way way>
cudaError_t measure_exchange(const char* what, std::vector<Ceiling>& rows) {
  const auto kernel = exchange_kernel<way>;
  constexpr int bytes = 2 * exchange_bytes, blocks = 8 * cluster;
  if (const cudaError_t error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      error != cudaSuccess)
    return error;
  const DeviceArray<float> sink(1);
  if (sink.error != cudaSuccess) return sink.error;
  rows.push_back({what, "bytes a cycle and multiprocessor", {}});
  return sample(
      blocks, [&](double* out) { kernel<<<blocks, threads, bytes>>>(out, sink.data); }, rows.back().samples);
}

}  // namespace

cudaError_t measure_clusters(std::vector<Ceiling>& rows) {
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaStreamCreate(&stream);
  for (const int blocks_a_cluster : {0, 2, 4, 8}) {
    rows.push_back({blocks_a_cluster == 0 ? std::string("node of a graph, 64 blocks, empty")
                                          : "node of a graph, 64 blocks, barrier of clusters of " +
                                                std::to_string(blocks_a_cluster),
                    "µs",
                    {}});
    for (int repeat = 0; repeat < 5 && error == cudaSuccess; ++repeat) {
      double microseconds = 0;
      error = node_time(stream, blocks_a_cluster, microseconds);
      rows.back().samples.push_back(microseconds);
    }
  }
  if (stream) cudaStreamDestroy(stream);
  if (error == cudaSuccess)
    error = measure_exchange<Way::load>("another block's shared memory read, 16 bytes a thread", rows);
  if (error == cudaSuccess)
    error = measure_exchange<Way::store_async>("64 KB sent to another block by st.async", rows);
  if (error == cudaSuccess)
    error = measure_exchange<Way::bulk_copy>("64 KB sent to another block by one bulk copy", rows);
  for (const bool remote : {true, false}) {
    rows.push_back(
        {remote ? "load of another block's shared memory" : "load of the own shared memory", "cycles", {}});
    if (error == cudaSuccess)
      error = sample(
          64,
          [&](double* out) {
            if (remote)
              latency_kernel<true><<<64, 32>>>(out);
            else
              latency_kernel<false><<<64, 32>>>(out);
          },
          rows.back().samples);
  }
  return error;
}

}  // namespace runmax::bench
