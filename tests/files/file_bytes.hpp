// Builds the bytes of .npy and .safetensors files by hand, so that tests can get every byte wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "files/elements.hpp"

namespace runmax::files {

inline Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// The elements as they lie in memory.
template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

inline std::string npy_file(int major, int minor, const std::string& header, const std::string& data) {
  std::string text("\x93NUMPY", 6);
  text += static_cast<char>(major);
  text += static_cast<char>(minor);
  return text + little_endian(header.size(), major == 1 ? 2 : 4) + header + data;
}

inline std::string npy_dictionary(const std::string& descr, const std::string& order,
                                  const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

inline std::string safetensors_file(const std::string& header, const std::string& data) {
  return little_endian(header.size(), 8) + header + data;
}

}  // namespace runmax::files
