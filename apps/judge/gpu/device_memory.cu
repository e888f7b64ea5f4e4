#include <cuda_runtime.h>

#include <algorithm>

#include "judge/gpu/device_memory.hpp"

namespace runmax::judge {
namespace {

// The heap of kernels has no counter. So all of it is taken in chunks, filled with a mark, and given back;
// taken again after the call, what no longer holds the mark was used.
constexpr int chunk_bytes = 16 << 10, most_chunks = 4096, words_per_chunk = chunk_bytes / 4;
constexpr unsigned mark = 0x7fc5a39bu;

__device__ unsigned* chunks[most_chunks];
__device__ int chunk_count;
__device__ unsigned long long changed_words;

__global__ void take_heap() {
  int count = 0;
  while (count < most_chunks) {
    auto* chunk = static_cast<unsigned*>(malloc(chunk_bytes));
    if (!chunk) break;
    chunks[count++] = chunk;
  }
  chunk_count = count;
  changed_words = 0;
}

__global__ void mark_heap() {
  for (int c = blockIdx.x; c < chunk_count; c += gridDim.x)
    for (int word = threadIdx.x; word < words_per_chunk; word += blockDim.x) chunks[c][word] = mark;
}

__global__ void count_changes() {
  unsigned long long changed = 0;
  for (int c = blockIdx.x; c < chunk_count; c += gridDim.x)
    for (int word = threadIdx.x; word < words_per_chunk; word += blockDim.x)
      changed += chunks[c][word] != mark;
  if (changed != 0) atomicAdd(&changed_words, changed);
}

__global__ void give_heap_back() {
  for (int c = 0; c < chunk_count; ++c) free(chunks[c]);
}

constexpr int blocks = 128, threads = 256;

// Stream-ordered allocations count too.
bool reset_pool(cudaMemPool_t& pool, int device) {
  if (cudaDeviceGetDefaultMemPool(&pool, device) != cudaSuccess) return false;
  unsigned long long zero = 0;
  return cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero) == cudaSuccess;
}

}  // namespace

DeviceMemoryWatch::DeviceMemoryWatch(Sources sources) : sources_(std::move(sources)) {
  (void)cudaGetDevice(&device_);
  for (const Array& array : sources_.arrays) {
    before_.emplace_back((array.bytes + 3) / 4);
    (void)cudaMemcpy(before_.back().data(), array.data, array.bytes, cudaMemcpyDeviceToHost);
  }
  if (sources_.heap) {
    take_heap<<<1, 1>>>();
    mark_heap<<<blocks, threads>>>();
    give_heap_back<<<1, 1>>>();
    (void)cudaDeviceSynchronize();
  }
  if (sources_.allocations) {
    cudaMemPool_t pool;
    (void)reset_pool(pool, device_);
    std::size_t total = 0;
    (void)cudaMemGetInfo(&free_before_, &total);
    least_free_ = free_before_;
    watcher_ = std::thread([this] { watch_allocations(); });
  }
}

void DeviceMemoryWatch::watch_allocations() {
  (void)cudaSetDevice(device_);
  while (!over_) {
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess) least_free_ = std::min(least_free_.load(), free);
  }
}

DeviceMemoryWatch::~DeviceMemoryWatch() {
  over_ = true;
  if (watcher_.joinable()) watcher_.join();
}

std::int64_t DeviceMemoryWatch::end() {
  over_ = true;
  if (watcher_.joinable()) watcher_.join();
  std::int64_t bytes = 0;
  for (std::size_t a = 0; a < sources_.arrays.size(); ++a) {
    std::vector<unsigned> after(before_[a].size());
    if (cudaMemcpy(after.data(), sources_.arrays[a].data, sources_.arrays[a].bytes, cudaMemcpyDeviceToHost) !=
        cudaSuccess)
      return -1;
    for (std::size_t word = 0; word < after.size(); ++word) bytes += after[word] != before_[a][word] ? 4 : 0;
  }
  if (sources_.heap) {
    take_heap<<<1, 1>>>();
    count_changes<<<blocks, threads>>>();
    give_heap_back<<<1, 1>>>();
    unsigned long long words = 0;
    if (cudaMemcpyFromSymbol(&words, changed_words, sizeof words) != cudaSuccess) return -1;
    bytes += static_cast<std::int64_t>(4 * words);
  }
  if (sources_.allocations) {
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return -1;
    bytes += static_cast<std::int64_t>(free_before_ - std::min({free_before_, free, least_free_.load()}));
    cudaMemPool_t pool;
    unsigned long long high = 0;
    if (cudaDeviceGetDefaultMemPool(&pool, device_) == cudaSuccess &&
        cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &high) == cudaSuccess)
      bytes = std::max(bytes, static_cast<std::int64_t>(high));
  }
  return bytes;
}

}  // namespace runmax::judge
