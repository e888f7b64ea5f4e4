// Shared-memory matrix descriptors for wgmma.
#pragma once

#include <cstdint>

#include "device/ptx/mbarrier.cuh"

namespace runmax::mma {

// Descriptor of a K-major tile with 128-byte swizzle: rows of 64 16-bit elements, groups of 8 rows 1024 bytes
// apart. `base` is 1024-byte aligned; the k-th step of 16 columns starts 32 k bytes further. PTX ISA, "Matrix
// descriptor": address >> 4 in bits 0-13, leading offset 16-29 (unused here), stride offset >> 4 in 32-45,
// swizzle mode in 62-63 (1 = 128 bytes).
__device__ inline std::uint64_t k_major_descriptor(const void* base) {
  const std::uint64_t address = (ptx::shared_address(base) & 0x3ffff) >> 4;
  return address | (std::uint64_t{1} << 16) | (std::uint64_t{1024 >> 4} << 32) | (std::uint64_t{1} << 62);
}

// The descriptor moved by `bytes` (a multiple of 16) of shared memory.
__device__ inline std::uint64_t advance(std::uint64_t descriptor, std::uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

}  // namespace runmax::mma
