// A 4-D tensor in device memory, as a kernel sees it.
#pragma once

#include <cstdint>

#include "runmax/tensor.hpp"

namespace runmax {

// (batch, heads, length, dim); strides in elements, any sign.
template <class T>
struct DeviceTensor {
  T* data;
  std::int64_t batch_stride, head_stride, row_stride, channel_stride;

  __device__ T* head(std::int64_t b, std::int64_t h) const {
    return data + b * batch_stride + h * head_stride;
  }
};

// Of a view whose element type the caller has checked to be T.
template <class T>
DeviceTensor<T> device_tensor(const TensorView& view) {
  return {static_cast<T*>(view.data), view.strides[0], view.strides[1], view.strides[2], view.strides[3]};
}

}  // namespace runmax
