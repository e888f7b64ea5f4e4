// Device memory for tests: floats between two guard bands, everything NaN until written.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/cuda_runtime.hpp"
#include "runtime/device_memory.hpp"

namespace runmax {
namespace lesson {

constexpr Device first_gpu{DeviceKind::cuda, 0};

// Why GPU tests cannot run here; empty if they can.
inline std::string why_no_gpu() {
  const Result<DeviceFacts> facts = device_facts(first_gpu);
  return facts.ok() ? "" : facts.status().message();
}

class GuardedFloats {
 public:
  explicit GuardedFloats(std::int64_t count) : count_(count) {
    Result<DeviceMemory> memory =
        DeviceMemory::allocate(first_gpu, static_cast<std::size_t>(count + 2 * guard) * sizeof(float));
    if (!memory.ok()) {
      ADD_FAILURE() << memory.status().message();
      return;
    }
    memory_ = std::move(memory.value());
    poison();
  }
  explicit GuardedFloats(const std::vector<float>& values)
      : GuardedFloats(static_cast<std::int64_t>(values.size())) {
    if (values.empty()) return;
    const Status status = cuda_copy_to_device(0, data(), values.data(), values.size() * sizeof(float));
    EXPECT_TRUE(status.ok()) << status.message();
  }

  float* data() const { return static_cast<float*>(memory_.data()) + guard; }

  // All bits set is a NaN.
  void poison() {
    const std::vector<std::uint32_t> bits(static_cast<std::size_t>(count_ + 2 * guard), ~std::uint32_t{0});
    const Status status = cuda_copy_to_device(0, memory_.data(), bits.data(), bits.size() * 4);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  // The floats, after everything enqueued; also checks that both guard bands are as they were.
  std::vector<float> read() const {
    std::vector<std::uint32_t> bits(static_cast<std::size_t>(count_ + 2 * guard));
    const Status status = cuda_copy_to_host(0, bits.data(), memory_.data(), bits.size() * 4);
    EXPECT_TRUE(status.ok()) << status.message();
    for (std::size_t i = 0; i < static_cast<std::size_t>(guard); ++i)
      if (bits[i] != ~std::uint32_t{0} || bits[bits.size() - 1 - i] != ~std::uint32_t{0}) {
        ADD_FAILURE() << "written outside of the array, " << i << " floats from the edge of a guard band";
        break;
      }
    std::vector<float> values(static_cast<std::size_t>(count_));
    if (count_ > 0) std::memcpy(values.data(), bits.data() + guard, values.size() * sizeof(float));
    return values;
  }

 private:
  static constexpr std::int64_t guard = 1024;
  std::int64_t count_ = 0;
  DeviceMemory memory_;
};

}  // namespace lesson
}  // namespace runmax
