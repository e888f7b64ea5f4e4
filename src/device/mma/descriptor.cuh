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

// Descriptor of an MN-major tile with 128-byte swizzle: rows of 64 16-bit elements along the other dimension
// than the product's sum, groups of 8 rows 1024 bytes apart, a step of 16 rows 2048 bytes further. Columns
// from 64 on are another such image, `column_block` bytes further: the leading offset.
__device__ inline std::uint64_t mn_major_descriptor(const void* base, std::uint32_t column_block) {
  return (k_major_descriptor(base) & ~(std::uint64_t{0x3fff} << 16)) |
         (std::uint64_t{column_block >> 4 & 0x3fff} << 16);
}

// The same descriptor, known to the compiler to be one for the warp: steps from it then need no register of
// every thread. All lanes must hold it.
__device__ inline std::uint64_t warp_uniform(std::uint64_t descriptor) {
  return (descriptor & ~std::uint64_t{0xffffffff}) |
         __shfl_sync(0xffffffffu, static_cast<std::uint32_t>(descriptor), 0);
}

// The descriptor moved by `bytes` (a multiple of 16) of shared memory.
__device__ inline std::uint64_t advance(std::uint64_t descriptor, std::uint32_t bytes) {
  return descriptor + (bytes >> 4);
}

}  // namespace runmax::mma
