// Element types, devices and the non-owning view of a tensor.
#ifndef RUNMAX_TENSOR_HPP
#define RUNMAX_TENSOR_HPP

#include <array>
#include <cstdint>
#include <string_view>

#include "runmax/export.hpp"

namespace runmax {

// i32 and boolean are the types of page tables, lengths and masks: never those of a problem. A boolean is one
// byte, 0 or 1.
enum class DType : std::int32_t {
  f32 = 0,
  f16 = 1,
  bf16 = 2,
  f64 = 3,
  e4m3 = 4,
  i8 = 5,
  i32 = 6,
  boolean = 7
};

// "f32", "f16", ..., "i32", "bool"; the first six are the names of the text form.
RUNMAX_API std::string_view dtype_name(DType dtype);

// Size of one element in bytes.
RUNMAX_API std::int64_t dtype_bytes(DType dtype);

enum class DeviceKind : std::int32_t { cpu = 0, cuda = 1 };

// "cpu" or "cuda".
RUNMAX_API std::string_view device_kind_name(DeviceKind kind);

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int32_t index = 0;  // CUDA device number; 0 for the CPU
  friend bool operator==(const Device&, const Device&) = default;
};

// How a packed 4-D array lies in memory, outermost dimension first.
enum class Layout : std::int32_t {
  bshd = 0,  // batch, sequence, heads, head_dim
  bhsd = 1,  // batch, heads, sequence, head_dim
};

// A view of a 4-D tensor. Whatever the layout in memory, dimensions are always named in the order
// (batch, heads, sequence, dim); strides are in elements, any sign, 0 for broadcast. `data` need only be
// aligned to the element. An LSE tensor has dim 1.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Device device;
  std::array<std::int64_t, 4> shape{0, 0, 0, 0};
  std::array<std::int64_t, 4> strides{0, 0, 0, 0};

  std::int64_t batch() const { return shape[0]; }
  std::int64_t heads() const { return shape[1]; }
  std::int64_t length() const { return shape[2]; }
  std::int64_t dim() const { return shape[3]; }
  std::int64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

// View of a packed array of shape (batch, heads, sequence, dim) stored in `layout`. Outputs and inputs share
// this type; an input's memory is never written.
RUNMAX_API TensorView packed_view(const void* data, DType dtype, std::array<std::int64_t, 4> shape_bhsd,
                                  Layout layout, Device device = {});

}  // namespace runmax

#endif  // RUNMAX_TENSOR_HPP
