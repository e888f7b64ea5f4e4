// Names and sizes of element types, devices and packed views.
#include "runmax/tensor.hpp"

namespace runmax {

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::f64:
      return "f64";
    case DType::e4m3:
      return "e4m3";
    case DType::i8:
      return "i8";
    case DType::i32:
      return "i32";
    case DType::boolean:
      return "bool";
  }
  return "invalid";
}

std::int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::f16:
      return 2;
    case DType::bf16:
      return 2;
    case DType::f64:
      return 8;
    case DType::e4m3:
      return 1;
    case DType::i8:
      return 1;
    case DType::i32:
      return 4;
    case DType::boolean:
      return 1;
  }
  return 0;
}

std::string_view device_kind_name(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : "cuda"; }

TensorView packed_view(const void* data, DType dtype, std::array<std::int64_t, 4> shape_bhsd, Layout layout,
                       Device device) {
  TensorView view;
  view.data = const_cast<void*>(data);
  view.dtype = dtype;
  view.device = device;
  view.shape = shape_bhsd;
  const auto [batch, heads, length, dim] = shape_bhsd;
  if (layout == Layout::bshd) {
    view.strides = {length * heads * dim, dim, heads * dim, 1};
  } else {
    view.strides = {heads * length * dim, length * dim, dim, 1};
  }
  return view;
}

}  // namespace runmax
