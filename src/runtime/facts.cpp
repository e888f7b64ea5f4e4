// Device facts and device memory: picks the backend by device kind.
#include <cstdlib>
#include <string>

#include "runmax/runmax.hpp"
#include "runtime/cpu_facts.hpp"
#include "runtime/cuda_runtime.hpp"
#include "runtime/device_memory.hpp"

namespace runmax {

bool built_with_cuda() {
#if defined(RUNMAX_WITH_CUDA)
  return true;
#else
  return false;
#endif
}

Result<DeviceFacts> device_facts(Device device) {
  if (device.kind == DeviceKind::cuda) return cuda_facts(device.index);
  if (device.index != 0)
    return Status(StatusCode::no_device,
                  "device: there is one CPU device, index 0, got " + std::to_string(device.index));
  return cpu_facts();
}

DeviceMemory::~DeviceMemory() {
  if (!data_) return;
  if (device_.kind == DeviceKind::cuda) {
    cuda_free(device_.index, data_);
  } else {
    std::free(data_);
  }
}

Result<DeviceMemory> DeviceMemory::allocate(Device device, std::size_t bytes) {
  DeviceMemory memory;
  memory.device_ = device;
  if (bytes == 0) return memory;
  if (device.kind == DeviceKind::cuda) {
    Result<void*> data = cuda_allocate(device.index, bytes);
    if (!data.ok()) return data.status();
    memory.data_ = data.value();
  } else {
    constexpr std::size_t alignment = 64;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    memory.data_ = rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
    if (!memory.data_)
      return Status(StatusCode::out_of_memory, "cpu: cannot allocate " + std::to_string(bytes) + " bytes");
  }
  memory.bytes_ = bytes;
  return memory;
}

Status synchronize(Device device, Stream stream) {
  return device.kind == DeviceKind::cuda ? cuda_synchronize(device.index, stream) : Status();
}

}  // namespace runmax
