#include "plan/views.hpp"

#include <cmath>

namespace runmax {

std::string shape_text(const Shape4& shape) {
  return "(" + std::to_string(shape[0]) + ", " + std::to_string(shape[1]) + ", " + std::to_string(shape[2]) +
         ", " + std::to_string(shape[3]) + ")";
}

Status invalid(const std::string& name, const std::string& rule) {
  return {StatusCode::invalid_argument, name + ": " + rule};
}

Status check_memory(const std::string& name, const TensorView& view, DType dtype, Device device) {
  if (view.dtype != dtype)
    return invalid(name, "dtype must be " + std::string(dtype_name(dtype)) + ", got " +
                             std::string(dtype_name(view.dtype)));
  if (!(view.device == device)) return invalid(name, "is on another device than the plan");
  if (view.elements() == 0) return {};
  if (view.data == nullptr) return invalid(name, "data is null");
  const std::int64_t bytes = dtype_bytes(dtype);
  if (reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(bytes) != 0)
    return invalid(name, "data must be aligned to its element of " + std::to_string(bytes) + " bytes");
  double reach = 0;
  for (std::size_t axis = 0; axis < 4; ++axis)
    reach += static_cast<double>(view.shape[axis] - 1) * std::abs(static_cast<double>(view.strides[axis]));
  if (reach * static_cast<double>(bytes) >= 0x1p63) return invalid(name, "strides reach beyond 2^63 bytes");
  return {};
}

Status check_view(const std::string& name, const TensorView& view, DType dtype, const Shape4& shape,
                  Device device) {
  if (view.shape != shape)
    return invalid(name, "shape (batch, heads, length, dim) must be " + shape_text(shape) + ", got " +
                             shape_text(view.shape));
  return check_memory(name, view, dtype, device);
}

Status check_distinct(const std::string& name, const TensorView& view) {
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (view.elements() > 0 && view.shape[axis] > 1 && view.strides[axis] == 0)
      return invalid(name, "is an output and cannot be broadcast (stride 0)");
  return {};
}

}  // namespace runmax
