// How much of a device's memory a call took for itself: arrays of its module, the heap of kernels,
// allocations.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace runmax::judge {

class DeviceMemoryWatch {
 public:
  struct Array {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  // What may be taken: these arrays; memory from the heap; memory by the host's allocations.
  struct Sources {
    std::vector<Array> arrays;
    bool heap = false, allocations = false;
  };
  // Before the call: remembers what the arrays hold, marks the heap, and watches the free memory.
  explicit DeviceMemoryWatch(Sources sources);
  ~DeviceMemoryWatch();
  DeviceMemoryWatch(const DeviceMemoryWatch&) = delete;
  DeviceMemoryWatch& operator=(const DeviceMemoryWatch&) = delete;

  // After it, and after the device is quiet: bytes that it changed in arrays and heap, and the most that it
  // had allocated at one time. -1: the device did not say.
  std::int64_t end();

 private:
  void watch_allocations();
  Sources sources_;
  std::vector<std::vector<unsigned>> before_;  // words of each array
  int device_ = 0;
  std::size_t free_before_ = 0;
  std::atomic<std::size_t> least_free_{0};
  std::atomic<bool> over_{false};
  std::thread watcher_;
};

}  // namespace runmax::judge
