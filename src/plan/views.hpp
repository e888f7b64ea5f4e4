// What every entry point asks of a caller's view before anything reads it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "runmax/runmax.hpp"

namespace runmax {

using Shape4 = std::array<std::int64_t, 4>;

// "(2, 8, 1024, 64)".
std::string shape_text(const Shape4& shape);

// invalid_argument, "NAME: RULE".
Status invalid(const std::string& name, const std::string& rule);

// What is left once the shape is known to be right: type, device, a pointer that is there and aligned to the
// element, strides that stay within 2^63 bytes.
Status check_memory(const std::string& name, const TensorView& view, DType dtype, Device device);

// The shape, then check_memory.
Status check_view(const std::string& name, const TensorView& view, DType dtype, const Shape4& shape,
                  Device device);

// An output whose elements share memory would keep only the last of them.
Status check_distinct(const std::string& name, const TensorView& view);

}  // namespace runmax
