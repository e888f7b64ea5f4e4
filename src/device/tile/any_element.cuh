// Elements of a type that is known when the kernel runs: read as FP32, written rounded to nearest.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "runmax/tensor.hpp"

namespace runmax {

__device__ inline float read_element(const void* data, DType dtype, std::int64_t at) {
  switch (dtype) {
    case DType::f16:
      return __half2float(static_cast<const __half*>(data)[at]);
    case DType::bf16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
    default:
      return static_cast<const float*>(data)[at];
  }
}

__device__ inline void write_element(void* data, DType dtype, std::int64_t at, float value) {
  switch (dtype) {
    case DType::f16:
      static_cast<__half*>(data)[at] = __float2half_rn(value);
      break;
    case DType::bf16:
      static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(value);
      break;
    default:
      static_cast<float*>(data)[at] = value;
  }
}

// As DeviceTensor, of f32, f16 or bf16.
struct AnyTensor {
  void* data;
  DType dtype;
  std::int64_t batch_stride, head_stride, row_stride, channel_stride;

  __device__ std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t row) const {
    return b * batch_stride + h * head_stride + row * row_stride;
  }
};

// A size of 1 is a stride of 0: the element is the same for all.
inline AnyTensor any_tensor(const TensorView& view) {
  const auto stride = [&](std::size_t axis) { return view.shape[axis] == 1 ? 0 : view.strides[axis]; };
  return {view.data, view.dtype, stride(0), stride(1), stride(2), stride(3)};
}

}  // namespace runmax
