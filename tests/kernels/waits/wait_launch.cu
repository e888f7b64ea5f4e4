#include "kernels/waits/wait_launch.hpp"

#include <cuda_runtime.h>

#include "device/ptx/mbarrier.cuh"

namespace runmax::kit {
namespace {

__global__ void wait_kernel(bool somebody_arrives) {
  __shared__ std::uint64_t barrier;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 32 && somebody_arrives) ptx::mbarrier_arrive(&barrier);
  if (threadIdx.x == 0) ptx::mbarrier_wait(&barrier, 0, "somebody to arrive");
}

}  // namespace

std::string wait_on_barrier(bool somebody_arrives) {
  wait_kernel<<<1, 64>>>(somebody_arrives);
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  return error == cudaSuccess ? "" : cudaGetErrorString(error);
}

}  // namespace runmax::kit
