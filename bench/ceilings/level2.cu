// Tiles of 32 KB from the L2 into shared memory by bulk copies, with a slot given back when it has landed:
// every block its own, and one copy for all blocks of a cluster.
#include <cstdint>

#include "bench/ceilings/ceilings.hpp"
#include "bench/ceilings/random_fill.cuh"
#include "bench/cycle_count.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/cluster.cuh"

namespace runmax::bench {
namespace {

constexpr int slots = 4, slot_bytes = 32 * 1024, tile_count = 512, tiles_a_block = 4000;

struct Ring {
  unsigned char slot[slots][slot_bytes];
  std::uint64_t full[slots], empty[slots];
};

// One copy into the same place of every block in `blocks`, counted there by the barrier in the same place.
__device__ void multicast_to_shared(void* shared, const void* global, std::uint32_t bytes,
                                    std::uint64_t* barrier, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, "
      "[%3], "
      "%4;" ::"r"(ptx::shared_address(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(ptx::shared_address(barrier)), "h"(blocks)
      : "memory");
}

__device__ void arrive_in_block(std::uint64_t* barrier, std::uint32_t rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                   ptx::address_in_block(barrier, rank))
               : "memory");
}

template <int cluster, bool multicast>
__global__ void __cluster_dims__(cluster, 1, 1) __launch_bounds__(64, 1)
    read_kernel(const unsigned char* tiles, double* bytes_per_cycle) {
  extern __shared__ __align__(1024) unsigned char raw_shared[];
  auto& ring = *reinterpret_cast<Ring*>(raw_shared);
  const std::uint32_t rank = blockIdx.x % cluster;
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < slots; ++slot) {
      ptx::mbarrier_init(&ring.full[slot], 1);
      ptx::mbarrier_init(&ring.empty[slot], multicast ? cluster : 1);
    }
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_arrive_relaxed();
  ptx::cluster_wait();
  if (threadIdx.x == 0) {
    for (int i = 0; i < tiles_a_block; ++i) {
      const int slot = i % slots;
      ptx::mbarrier_wait(&ring.empty[slot], i / slots % 2 ^ 1, "a slot to be empty");
      ptx::mbarrier_arrive_expect_tx(&ring.full[slot], slot_bytes);
      // Blocks of a cluster read the same tiles, clusters others.
      const unsigned char* tile =
          tiles + static_cast<std::int64_t>((blockIdx.x / cluster * 37 + i) % tile_count) * slot_bytes;
      if constexpr (multicast) {
        constexpr int part = slot_bytes / cluster;
        multicast_to_shared(ring.slot[slot] + rank * part, tile + rank * part, part, &ring.full[slot],
                            static_cast<std::uint16_t>((1 << cluster) - 1));
      } else {
        ptx::bulk_copy_to_shared(ring.slot[slot], tile, slot_bytes, &ring.full[slot]);
      }
    }
  } else if (threadIdx.x == 32) {
    const long long begin = clock64();
    for (int i = 0; i < tiles_a_block; ++i) {
      const int slot = i % slots;
      ptx::mbarrier_wait(&ring.full[slot], i / slots % 2, "a tile to land");
      if constexpr (multicast) {
        for (std::uint32_t block = 0; block < cluster; ++block) arrive_in_block(&ring.empty[slot], block);
      } else {
        ptx::mbarrier_arrive(&ring.empty[slot]);
      }
    }
    bytes_per_cycle[blockIdx.x] =
        static_cast<double>(tiles_a_block) * slot_bytes / static_cast<double>(clock64() - begin);
  }
  __syncwarp();
  // No block leaves while another may still write to it.
  ptx::cluster_arrive_relaxed();
  ptx::cluster_wait();
}

template <int cluster, bool multicast>
cudaError_t measure(int multiprocessors, const unsigned char* tiles, const char* what,
                    std::vector<Ceiling>& rows) {
  const auto kernel = read_kernel<cluster, multicast>;
  constexpr int bytes = sizeof(Ring);
  if (const cudaError_t error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      error != cudaSuccess)
    return error;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(multiprocessors / cluster * cluster));
  config.blockDim = dim3(64);
  config.dynamicSmemBytes = bytes;
  int resident = 0;
  if (const cudaError_t error = cudaOccupancyMaxActiveClusters(&resident, kernel, &config);
      error != cudaSuccess)
    return error;
  const int blocks = resident * cluster;
  const DeviceArray<double> on_device(static_cast<std::size_t>(blocks));
  if (on_device.error != cudaSuccess) return on_device.error;
  rows.push_back({std::string(what) + ", " + std::to_string(blocks) + " blocks",
                  "bytes a cycle into each multiprocessor",
                  {}});
  std::vector<double> samples(static_cast<std::size_t>(blocks));
  for (int launch = 0; launch < 4; ++launch) {
    kernel<<<blocks, 64, bytes>>>(tiles, on_device.data);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
    if (const cudaError_t error = cudaMemcpy(samples.data(), on_device.data, samples.size() * sizeof(double),
                                             cudaMemcpyDeviceToHost);
        error != cudaSuccess)
      return error;
    // The first launch brings the tiles into the L2.
    if (launch > 0) rows.back().samples.insert(rows.back().samples.end(), samples.begin(), samples.end());
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t measure_level2(int multiprocessors, std::vector<Ceiling>& rows) {
  const DeviceArray<unsigned char> tiles(static_cast<std::size_t>(tile_count) * slot_bytes);
  if (tiles.error != cudaSuccess) return tiles.error;
  cudaError_t error = random_fill(tiles.data, static_cast<std::int64_t>(tile_count) * slot_bytes);
  if (error == cudaSuccess)
    error = measure<1, false>(multiprocessors, tiles.data, "L2, blocks by themselves", rows);
  if (error == cudaSuccess)
    error = measure<2, false>(multiprocessors, tiles.data, "L2, clusters of 2 that read the same", rows);
  if (error == cudaSuccess)
    error = measure<2, true>(multiprocessors, tiles.data, "L2, clusters of 2, multicast", rows);
  if (error == cudaSuccess)
    error = measure<4, false>(multiprocessors, tiles.data, "L2, clusters of 4 that read the same", rows);
  if (error == cudaSuccess)
    error = measure<4, true>(multiprocessors, tiles.data, "L2, clusters of 4, multicast", rows);
  return error;
}

}  // namespace runmax::bench
