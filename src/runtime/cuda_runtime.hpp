// The CUDA host calls of the library, behind plain types. Without CUDA in the build each answers no_device.
#pragma once

#include <cstddef>

#include "runmax/runmax.hpp"

namespace runmax {

// Makes a device current for a scope, so that launches go there, and restores the caller's afterwards.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  const Status& status() const { return status_; }

 private:
  int previous_ = -1;
  Status status_;
};

Result<DeviceFacts> cuda_facts(int index);
Result<void*> cuda_allocate(int index, std::size_t bytes);
void cuda_free(int index, void* data);
Status cuda_synchronize(int index, Stream stream);

// Blocking copies between host and device memory.
Status cuda_copy_to_device(int index, void* device, const void* host, std::size_t bytes);
Status cuda_copy_to_host(int index, void* host, const void* device, std::size_t bytes);

}  // namespace runmax
