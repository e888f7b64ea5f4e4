// The CUDA runtime behind plain types. Every call is checked; the caller's current device is restored.
#include "runtime/cuda_runtime.hpp"

#include <cuda_runtime_api.h>

#include <string>

#include "runtime/cuda_status.hpp"

namespace runmax {
CurrentDevice::CurrentDevice(int index) {
  cudaError_t error = cudaGetDevice(&previous_);
  if (error == cudaSuccess && previous_ != index) error = cudaSetDevice(index);
  status_ = cuda_status(error, "selecting device " + std::to_string(index));
}

CurrentDevice::~CurrentDevice() {
  if (previous_ >= 0) (void)cudaSetDevice(previous_);
}

Result<DeviceFacts> cuda_facts(int index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  // A machine without a driver answers cudaErrorInsufficientDriver, one without a GPU cudaErrorNoDevice.
  if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice ||
      (error == cudaSuccess && count == 0)) {
    (void)cudaGetLastError();
    return Status(StatusCode::no_device,
                  std::string("cuda: no GPU on this machine (") +
                      (error == cudaErrorInsufficientDriver ? "no NVIDIA driver, or one too old"
                                                            : "the driver finds none") +
                      ")");
  }
  if (Status status = cuda_status(error, "counting devices"); !status.ok()) return status;
  if (index < 0 || index >= count)
    return Status(StatusCode::no_device, "cuda: device index " + std::to_string(index) + " is not in [0, " +
                                             std::to_string(count) + ")");
  const CurrentDevice current(index);
  if (Status status = current.status(); !status.ok()) return status;
  cudaDeviceProp prop;
  if (Status status = cuda_status(cudaGetDeviceProperties(&prop, index), "reading properties"); !status.ok())
    return status;
  std::size_t free_bytes = 0, total_bytes = 0;
  if (Status status = cuda_status(cudaMemGetInfo(&free_bytes, &total_bytes), "reading memory"); !status.ok())
    return status;
  DeviceFacts facts;
  facts.device = {DeviceKind::cuda, index};
  facts.name = prop.name;
  facts.memory_bytes = static_cast<std::int64_t>(total_bytes);
  facts.free_bytes = static_cast<std::int64_t>(free_bytes);
  facts.compute_capability = prop.major * 10 + prop.minor;
  facts.multiprocessors = prop.multiProcessorCount;
  facts.max_threads_per_multiprocessor = prop.maxThreadsPerMultiProcessor;
  facts.max_blocks_per_multiprocessor = prop.maxBlocksPerMultiProcessor;
  facts.registers_per_multiprocessor = prop.regsPerMultiprocessor;
  facts.shared_bytes_per_multiprocessor = static_cast<std::int64_t>(prop.sharedMemPerMultiprocessor);
  facts.shared_bytes_per_block = static_cast<std::int64_t>(prop.sharedMemPerBlock);
  facts.shared_bytes_per_block_optin = static_cast<std::int64_t>(prop.sharedMemPerBlockOptin);
  facts.reserved_shared_bytes_per_block = static_cast<std::int64_t>(prop.reservedSharedMemPerBlock);
  facts.l2_bytes = prop.l2CacheSize;
  (void)cudaDriverGetVersion(&facts.driver_version);
  (void)cudaRuntimeGetVersion(&facts.runtime_version);
  return facts;
}

Result<void*> cuda_allocate(int index, std::size_t bytes) {
  const CurrentDevice current(index);
  if (Status status = current.status(); !status.ok()) return status;
  void* data = nullptr;
  if (Status status = cuda_status(cudaMalloc(&data, bytes), "allocating " + std::to_string(bytes) + " bytes");
      !status.ok()) {
    (void)cudaGetLastError();
    return status;
  }
  return data;
}

void cuda_free(int index, void* data) {
  const CurrentDevice current(index);
  (void)cudaFree(data);
}

Status cuda_synchronize(int index, Stream stream) {
  const CurrentDevice current(index);
  if (Status status = current.status(); !status.ok()) return status;
  return cuda_status(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "running the kernels");
}

Status cuda_copy_to_device(int index, void* device, const void* host, std::size_t bytes) {
  const CurrentDevice current(index);
  if (Status status = current.status(); !status.ok()) return status;
  return cuda_status(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "copying to the device");
}

Status cuda_copy_to_host(int index, void* host, const void* device, std::size_t bytes) {
  const CurrentDevice current(index);
  if (Status status = current.status(); !status.ok()) return status;
  return cuda_status(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "copying to the host");
}

}  // namespace runmax
