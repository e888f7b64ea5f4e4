// Memory that the lab hands to a path, counted as it is taken, and what the system saw of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "runmax/runmax.hpp"

namespace runmax::measure {

// Bytes held at once, and the most that ever were.
class MemoryLedger {
 public:
  void take(std::size_t bytes) {
    held_ += bytes;
    if (held_ > peak_) peak_ = held_;
  }
  void give(std::size_t bytes) { held_ -= bytes; }
  std::size_t held() const { return held_; }
  std::size_t peak() const { return peak_; }

 private:
  std::size_t held_ = 0;
  std::size_t peak_ = 0;
};

// Owned memory of a device, counted in a ledger that must outlive it. CPU memory comes in fresh pages, so
// that the resident set rises by what is touched.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(ledger_, other.ledger_);
    return *this;
  }
  ~Buffer();

  static Result<Buffer> allocate(Device device, std::size_t bytes, MemoryLedger& ledger);

  void* data() const { return data_; }
  float* floats() const { return static_cast<float*>(data_); }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // Blocking copies; `bytes` at most the buffer's.
  Status from_host(const void* host, std::size_t bytes) const;
  Status to_host(void* host, std::size_t bytes) const;

 private:
  Device device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  MemoryLedger* ledger_ = nullptr;
};

// How much memory the system saw leave between construction and `rise`: on the CPU the rise of this process's
// peak resident set, on a GPU the drop of the device's free memory (other users of the GPU count too).
class SystemMemoryWatch {
 public:
  explicit SystemMemoryWatch(Device device);
  // Nothing if the system does not tell. On a GPU call it while the memory is still held.
  std::optional<std::int64_t> rise() const;

 private:
  Device device_;
  std::optional<std::int64_t> before_;
};

}  // namespace runmax::measure
