// How many blocks of a kernel fit on one multiprocessor, by arithmetic from the device's limits (C++17,
// pure).
//
// The rules are those of the CUDA occupancy calculator: registers are given to warps in units of 256 inside
// one of four sub-partitions, shared memory to blocks in units that depend on the architecture.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../src/kernels/lesson/online/config.hpp"

namespace runmax {
namespace lesson {

constexpr int sub_partitions = 4;
constexpr int register_unit_per_warp = 256;

// Limits of one multiprocessor. Bytes are bytes of shared memory.
struct MultiprocessorLimits {
  int compute_capability = 0;  // 75, 80, 90, ...
  int max_threads = 0;
  int max_blocks = 0;
  int registers = 0;
  int shared_bytes = 0;
  int reserved_shared_bytes_per_block = 0;  // taken by the driver
  int shared_unit_bytes = 0;                // allocation granularity
};

// Shared memory is given out in 256 bytes on sm_75 and in 128 bytes from sm_80 on; no device property tells.
constexpr int shared_unit_bytes(int compute_capability) { return compute_capability < 80 ? 256 : 128; }

// The published limits of an architecture; max_threads is 0 for one that is not in the table.
inline MultiprocessorLimits published_limits(int compute_capability) {
  MultiprocessorLimits limits;
  limits.compute_capability = compute_capability;
  limits.shared_unit_bytes = shared_unit_bytes(compute_capability);
  limits.registers = 65536;
  switch (compute_capability) {
    case 75:  // T4
      limits.max_threads = 1024;
      limits.max_blocks = 16;
      limits.shared_bytes = 64 * 1024;
      break;
    case 80:  // A100
      limits.max_threads = 2048;
      limits.max_blocks = 32;
      limits.shared_bytes = 164 * 1024;
      limits.reserved_shared_bytes_per_block = 1024;
      break;
    case 90:  // H100, H200
      limits.max_threads = 2048;
      limits.max_blocks = 32;
      limits.shared_bytes = 228 * 1024;
      limits.reserved_shared_bytes_per_block = 1024;
      break;
    default:
      limits = MultiprocessorLimits{};
  }
  return limits;
}

// What a kernel takes: cudaFuncGetAttributes gives registers and static shared bytes.
struct KernelNeeds {
  int threads_per_block = 0;
  int registers_per_thread = 0;
  int shared_bytes_per_block = 0;
};

// Blocks that each limit allows, the smallest of them, and the share of the multiprocessor's threads in use.
struct Occupancy {
  int by_threads = 0;
  int by_blocks = 0;
  int by_registers = 0;
  int by_shared = 0;
  int blocks = 0;
  double fraction = 0;
  const char* limited_by =
      "";  // "threads", "blocks", "registers" or "shared memory": the tightest, in this order
};

constexpr int round_up_to(int value, int unit) { return (value + unit - 1) / unit * unit; }

inline Occupancy predict_occupancy(const MultiprocessorLimits& limits, const KernelNeeds& kernel) {
  Occupancy result;
  if (kernel.threads_per_block <= 0 || limits.max_threads <= 0) return result;
  const int warps = (kernel.threads_per_block + warp_size - 1) / warp_size;
  result.by_threads = limits.max_threads / (warps * warp_size);
  result.by_blocks = limits.max_blocks;

  // A kernel that uses no register or no shared memory is not limited by it.
  result.by_registers = limits.max_blocks;
  if (kernel.registers_per_thread > 0) {
    const int per_warp = round_up_to(kernel.registers_per_thread * warp_size, register_unit_per_warp);
    const int warps_that_fit = limits.registers / sub_partitions / per_warp * sub_partitions;
    result.by_registers = warps_that_fit / round_up_to(warps, sub_partitions);
  }
  result.by_shared = limits.max_blocks;
  const int shared = kernel.shared_bytes_per_block + limits.reserved_shared_bytes_per_block;
  if (shared > 0) result.by_shared = limits.shared_bytes / round_up_to(shared, limits.shared_unit_bytes);

  result.blocks = result.by_threads;
  result.limited_by = "threads";
  const auto tighten = [&](int blocks, const char* name) {
    if (blocks >= result.blocks) return;
    result.blocks = blocks;
    result.limited_by = name;
  };
  tighten(result.by_blocks, "blocks");
  tighten(result.by_registers, "registers");
  tighten(result.by_shared, "shared memory");
  result.fraction = static_cast<double>(result.blocks * warps * warp_size) / limits.max_threads;
  return result;
}

// Shared memory of the online kernel, from its own configuration.
constexpr int online_shared_bytes = OnlineConfig::shared_floats * static_cast<int>(sizeof(float));

}  // namespace lesson
}  // namespace runmax
