// A tensor in host memory with any strides, as the checker and the tests build it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runmax/tensor.hpp"

namespace runmax::check {

// f32. Dimensions in the order (batch, heads, sequence, dim); element (0, 0, 0, 0) is storage[offset]. What
// the strides do not reach is padding: the runner checks that nothing writes there.
struct HostTensor {
  std::vector<float> storage;
  std::array<std::int64_t, 4> shape{0, 0, 0, 0};
  std::array<std::int64_t, 4> strides{0, 0, 0, 0};
  std::int64_t offset = 0;

  std::int64_t index(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) const {
    return offset + b * strides[0] + h * strides[1] + i * strides[2] + c * strides[3];
  }
  float& at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c = 0) {
    return storage[static_cast<std::size_t>(index(b, h, i, c))];
  }
  float at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c = 0) const {
    return storage[static_cast<std::size_t>(index(b, h, i, c))];
  }
  std::int64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }

  // The view of this tensor in `memory`, which holds a copy of `storage`.
  TensorView view(void* memory, Device device) const {
    TensorView view;
    view.data = static_cast<float*>(memory) + offset;
    view.device = device;
    view.shape = shape;
    view.strides = strides;
    return view;
  }
};

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
