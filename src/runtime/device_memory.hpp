// Owned memory of a device. The library itself allocates only in the one-call form; tools and tests use it
// too.
#pragma once

#include <cstddef>
#include <utility>

#include "runmax/runmax.hpp"

namespace runmax {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory();

  // `bytes` of the device's memory, aligned to at least 64 bytes, uninitialised. 0 bytes hold a null pointer.
  static Result<DeviceMemory> allocate(Device device, std::size_t bytes);

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Device device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Waits for everything enqueued on the stream. Nothing to wait for on the CPU.
Status synchronize(Device device, Stream stream);

}  // namespace runmax
