// A tensor in host memory with any strides, as the checker and the tests build it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runmax/tensor.hpp"

namespace runmax::check {

// Dimensions in the order (batch, heads, sequence, dim); element (0, 0, 0, 0) is storage[offset]. What the
// strides do not reach is padding: the runner checks that nothing writes there.
//
// Values are held as f32 whatever the type of the elements: exact for 16-bit types, and for integers of
// ordinary size. Those of f64 and i32 stand in `wide` where f32 would round them.
struct HostTensor {
  std::vector<float> storage;
  std::array<std::int64_t, 4> shape{0, 0, 0, 0};
  std::array<std::int64_t, 4> strides{0, 0, 0, 0};
  std::int64_t offset = 0;
  DType dtype = DType::f32;
  std::vector<double> wide;  // empty, or instead of storage and of its size

  std::int64_t index(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) const {
    return offset + b * strides[0] + h * strides[1] + i * strides[2] + c * strides[3];
  }
  float& at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c = 0) {
    return storage[static_cast<std::size_t>(index(b, h, i, c))];
  }
  float at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c = 0) const {
    return storage[static_cast<std::size_t>(index(b, h, i, c))];
  }
  // The value, exactly.
  double value(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c = 0) const {
    const auto place = static_cast<std::size_t>(index(b, h, i, c));
    return wide.empty() ? static_cast<double>(storage[place]) : wide[place];
  }
  std::int64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  std::size_t bytes() const { return storage.size() * static_cast<std::size_t>(dtype_bytes(dtype)); }

  // The view of this tensor in `memory`, which holds its elements as encode wrote them.
  TensorView view(void* memory, Device device) const {
    TensorView view;
    view.data = static_cast<unsigned char*>(memory) + offset * dtype_bytes(dtype);
    view.dtype = dtype;
    view.device = device;
    view.shape = shape;
    view.strides = strides;
    return view;
  }
};

// The elements as they lie in memory, each value rounded to its type.
std::vector<unsigned char> encode(const HostTensor& tensor);

// The other way: values from memory, in `storage`, and for f64 also in `wide`.
void decode(const unsigned char* memory, HostTensor& tensor);

// An output that was full of 0xFF before the call, from memory. Bytes written between its elements are noted
// in `trespass`, unless something else was before.
HostTensor take_output(const char* name, const unsigned char* memory, const HostTensor& like,
                       std::string& trespass);

// Packed in the given layout; `values`, if not empty, are its elements in that layout's order.
inline HostTensor packed_tensor(std::array<std::int64_t, 4> shape, std::vector<float> values = {},
                                Layout layout = Layout::bhsd) {
  HostTensor tensor;
  tensor.shape = shape;
  tensor.strides = packed_view(nullptr, DType::f32, shape, layout).strides;
  tensor.storage = std::move(values);
  tensor.storage.resize(static_cast<std::size_t>(tensor.elements()));
  return tensor;
}

}  // namespace runmax::check
