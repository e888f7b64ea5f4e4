// Tensors that lie anywhere in memory: with any strides, inside a larger buffer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {

using Shape = std::array<std::int64_t, 4>;

// A tensor somewhere inside a larger buffer, with any strides.
struct Placed {
  std::vector<float> memory;
  TensorView view;
};

// Puts packed (b, h, s, d) data where `strides` and `offset` say; all else is NaN.
inline Placed place(const std::vector<float>& packed, Shape shape, Shape strides, std::int64_t offset) {
  std::int64_t low = 0, high = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const std::int64_t reach = (shape[axis] - 1) * strides[axis];
    (reach < 0 ? low : high) += reach;
  }
  Placed placed;
  placed.memory.assign(static_cast<std::size_t>(high - low + 1 + offset), nan);
  placed.view = {placed.memory.data() + offset - low, DType::f32, {}, shape, strides};
  std::size_t at = 0;
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t s = 0; s < shape[2]; ++s)
        for (std::int64_t c = 0; c < shape[3]; ++c)
          placed.memory[static_cast<std::size_t>(offset - low + b * strides[0] + h * strides[1] +
                                                 s * strides[2] + c * strides[3])] = packed[at++];
  return placed;
}

inline std::vector<float> gathered(const Placed& placed) {
  std::vector<float> packed;
  const auto& view = placed.view;
  for (std::int64_t b = 0; b < view.shape[0]; ++b)
    for (std::int64_t h = 0; h < view.shape[1]; ++h)
      for (std::int64_t s = 0; s < view.shape[2]; ++s)
        for (std::int64_t c = 0; c < view.shape[3]; ++c)
          packed.push_back(static_cast<const float*>(view.data)[b * view.strides[0] + h * view.strides[1] +
                                                                s * view.strides[2] + c * view.strides[3]]);
  return packed;
}

// Strides for a shape: packed, then what else a caller may have.
using Strides = Shape (*)(Shape);
inline constexpr Strides arrangements[] = {
    [](Shape n) {
      return Shape{n[1] * n[2] * n[3], n[2] * n[3], n[3], 1};
    },
    // (b, s, h, d), channels apart, transposed, rows backwards, all backwards.
    [](Shape n) {
      return Shape{n[1] * n[2] * n[3], n[3], n[1] * n[3], 1};
    },
    [](Shape n) {
      return Shape{3 * n[1] * n[2] * n[3], 3 * n[2] * n[3], 3 * n[3], 3};
    },
    [](Shape n) {
      return Shape{n[1] * n[2] * n[3], n[2] * n[3], 1, n[2]};
    },
    [](Shape n) {
      return Shape{n[1] * n[2] * n[3], n[2] * n[3], -n[3], 1};
    },
    [](Shape n) {
      return Shape{-n[1] * n[2] * n[3], -n[2] * n[3], -n[3], -1};
    }};

}  // namespace runmax::testing_cpu
