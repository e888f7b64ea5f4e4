// What a cubin holds, read from the file: kernels, arrays of the module, use of the device's heap.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runmax/status.hpp"

namespace runmax::judge {

struct DeviceCode {
  struct Array {
    std::string name;
    std::int64_t bytes = 0;
  };
  std::vector<std::string> kernels;
  std::vector<Array> arrays;     // of the module, in global memory
  bool takes_from_heap = false;  // it calls malloc

  std::int64_t array_bytes() const {
    std::int64_t bytes = 0;
    for (const Array& array : arrays) bytes += array.bytes;
    return bytes;
  }
};

// An error says what is wrong with the file.
Result<DeviceCode> read_device_code(std::string_view cubin);

}  // namespace runmax::judge
