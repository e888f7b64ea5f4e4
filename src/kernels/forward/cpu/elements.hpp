// Tensors of any element type, row by row: FP32 rows for the packing, and one rounding on the way out.
#pragma once

#include <cstdint>

#include "kernels/forward/cpu/config.hpp"
#include "runmax/tensor.hpp"

namespace runmax::cpu {

// Rows of a matrix of f32, f16 or bf16 with any strides, in elements.
struct ElementRows {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row_stride = 0;
  std::int64_t channel_stride = 1;
  // What is asked for while row 0 is read, and so on row by row, so that it is there when its turn comes;
  // null: nothing.
  const void* later = nullptr;
};

struct ElementFunctions {
  // (rows, channels) as FP32, row after row: to[r * channels + c].
  void (*widen)(const ElementRows& source, std::int64_t rows, std::int64_t channels, float* to);
  // to[i * stride] = from[i] as an element of that type, rounded to nearest even; beyond its range infinite.
  void (*narrow)(const float* from, std::int64_t count, DType dtype, void* to, std::int64_t stride);
};

// Those of the instruction set that tile_functions takes.
const ElementFunctions& element_functions();

inline void* element_at(void* data, DType dtype, std::int64_t index) {
  return static_cast<char*>(data) + index * (dtype == DType::f32 ? 4 : dtype == DType::f64 ? 8 : 2);
}
inline const void* element_at(const void* data, DType dtype, std::int64_t index) {
  return element_at(const_cast<void*>(data), dtype, index);
}

// Rows [first, ...) of one head of a tensor.
inline ElementRows element_rows(const TensorView& view, std::int64_t batch, std::int64_t head,
                                std::int64_t first) {
  const std::int64_t at = batch * view.strides[0] + head * view.strides[1] + first * view.strides[2];
  return {element_at(view.data, view.dtype, at), view.dtype, view.strides[2], view.strides[3],
          element_at(view.data, view.dtype, at + prefetch_rows * view.strides[2])};
}

}  // namespace runmax::cpu
