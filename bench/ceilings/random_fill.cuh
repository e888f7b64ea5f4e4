// Random fp16 numbers in device memory: constants draw less power, and may move faster, than data do.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "measure/gpu/random_halves.cuh"

namespace runmax::bench {

__global__ static void random_fill_kernel(std::uint32_t* words, std::int64_t count) {
  std::uint32_t seed = blockIdx.x * blockDim.x + threadIdx.x + 1;
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    words[i] = measure::random_halves(seed);
}

inline cudaError_t random_fill(unsigned char* memory, std::int64_t bytes) {
  random_fill_kernel<<<512, 256>>>(reinterpret_cast<std::uint32_t*>(memory), bytes / 4);
  return cudaGetLastError();
}

}  // namespace runmax::bench
