#include "files/elements.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <new>

namespace runmax::files {
namespace {

static_assert(std::endian::native == std::endian::little, "files hold little-endian elements");

template <class T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

float float_from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

float float_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    // Zero or subnormal: fraction * 2^-24, exact in f32.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t widened = exponent == 0x1f ? 0xffu : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (widened << 23) | (fraction << 13));
}

// One element as f32; false if a finite value does not fit.
struct FromF16 {
  static constexpr std::size_t bytes = 2;
  static bool read(const std::byte* data, float& value) {
    value = float_from_f16(load<std::uint16_t>(data));
    return true;
  }
};
struct FromBf16 {
  static constexpr std::size_t bytes = 2;
  static bool read(const std::byte* data, float& value) {
    value = float_from_bf16(load<std::uint16_t>(data));
    return true;
  }
};
struct FromF32 {
  static constexpr std::size_t bytes = 4;
  static bool read(const std::byte* data, float& value) {
    value = load<float>(data);
    return true;
  }
};
struct FromF64 {
  static constexpr std::size_t bytes = 8;
  static bool read(const std::byte* data, float& value) {
    const double wide = load<double>(data);
    // Halfway between the largest f32 and the next power of two; from there on, rounding gives infinity.
    // Compared first because converting such a value is undefined in C++.
    constexpr double overflow = 0x1.ffffffp127;
    if (std::isfinite(wide) && std::abs(wide) >= overflow) return false;
    value = static_cast<float>(wide);
    return true;
  }
};
struct FromBoolean {
  static constexpr std::size_t bytes = 1;
  template <class T>
  static bool read(const std::byte* data, T& value) {
    value = *data == std::byte{0} ? T{0} : T{1};
    return true;
  }
};

struct FromF64Whole {
  static constexpr std::size_t bytes = 8;
  static bool read(const std::byte* data, double& value) {
    value = load<double>(data);
    return true;
  }
};
template <class Integer>
struct FromInteger {
  static constexpr std::size_t bytes = sizeof(Integer);
  static bool read(const std::byte* data, std::int64_t& value) {
    value = load<Integer>(data);
    return true;
  }
};

// Walks the indices of a shape in C order.
class Odometer {
 public:
  explicit Odometer(const Shape& shape) : shape_(shape), index_(shape.size(), 0) {}
  const Shape& index() const { return index_; }

  // To the next index; returns the change of the source offset, given strides.
  std::int64_t advance(const Shape& strides) {
    std::int64_t change = 0;
    for (std::size_t axis = shape_.size(); axis-- > 0;) {
      change += strides[axis];
      if (++index_[axis] < shape_[axis]) return change;
      change -= strides[axis] * shape_[axis];
      index_[axis] = 0;
    }
    return change;
  }

 private:
  const Shape& shape_;
  Shape index_;
};

std::string number_text(double value) {
  std::array<char, 32> buffer;
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

template <class From, class T>
Status convert(Bytes data, const Shape& shape, Order order, std::vector<T>& out) {
  Shape strides(shape.size(), 1);
  if (order == Order::c) {
    for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  } else {
    for (std::size_t axis = 1; axis < shape.size(); ++axis)
      strides[axis] = strides[axis - 1] * shape[axis - 1];
  }
  Odometer odometer(shape);
  std::int64_t source = 0;
  for (T& value : out) {
    const std::byte* element = data.data() + static_cast<std::size_t>(source) * From::bytes;
    if (!From::read(element, value))  // of f64 alone
      return {StatusCode::invalid_argument, "element " + shape_text(odometer.index()) + " is " +
                                                number_text(load<double>(element)) +
                                                ", beyond the range of f32 (3.4028235e+38)"};
    source += odometer.advance(strides);
  }
  return {};
}

}  // namespace

const char* element_name(Element element) {
  switch (element) {
    case Element::f16:
      return "f16";
    case Element::bf16:
      return "bf16";
    case Element::f32:
      return "f32";
    case Element::f64:
      return "f64";
    case Element::boolean:
      return "bool";
    case Element::i32:
      return "i32";
    case Element::i64:
      return "i64";
  }
  return "invalid";
}

std::size_t element_bytes(Element element) {
  switch (element) {
    case Element::f16:
    case Element::bf16:
      return 2;
    case Element::f32:
    case Element::i32:
      return 4;
    case Element::f64:
    case Element::i64:
      return 8;
    case Element::boolean:
      return 1;
  }
  return 0;
}

std::string shape_text(const Shape& shape) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    text += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 40;
  std::string line = "'";
  for (const char c : text.substr(0, longest)) line += c >= 0x20 && c < 0x7f ? c : '?';
  return line + (text.size() > longest ? "...'" : "'");
}

bool count_elements(const Shape& shape, std::uint64_t limit, std::uint64_t& count) {
  bool empty = false;
  count = 1;
  for (const std::int64_t length : shape) {
    if (length == 0) {
      empty = true;
      continue;
    }
    const auto factor = static_cast<std::uint64_t>(length);
    if (count > limit / factor) return false;
    count *= factor;
  }
  if (empty) count = 0;
  return true;
}

Result<FloatArray> to_f32(Bytes data, Element element, const Shape& shape, Order order) {
  FloatArray array;
  array.shape = shape;
  array.stored = element;
  const std::size_t count = data.size() / element_bytes(element);
  try {
    array.values.resize(count);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::out_of_memory, "cannot allocate " + std::to_string(count * sizeof(float)) +
                                                 " bytes for " + std::to_string(count) + " f32 elements");
  }
  if (count == 0) return array;
  if (element == Element::f32 && (order == Order::c || shape.size() < 2)) {
    std::memcpy(array.values.data(), data.data(), count * sizeof(float));
    return array;
  }
  Status status;
  switch (element) {
    case Element::f16:
      status = convert<FromF16>(data, shape, order, array.values);
      break;
    case Element::bf16:
      status = convert<FromBf16>(data, shape, order, array.values);
      break;
    case Element::f32:
      status = convert<FromF32>(data, shape, order, array.values);
      break;
    case Element::f64:
      status = convert<FromF64>(data, shape, order, array.values);
      break;
    case Element::boolean:
      status = convert<FromBoolean>(data, shape, order, array.values);
      break;
    case Element::i32:
    case Element::i64:
      return Status(StatusCode::invalid_argument, "holds integers, not floating-point numbers");
  }
  if (!status.ok()) return status;
  return array;
}

namespace {

template <class Number>
Status allocate(std::vector<Number>& values, std::size_t count, const char* what) {
  try {
    values.resize(count);
  } catch (const std::bad_alloc&) {
    return {StatusCode::out_of_memory, "cannot allocate " + std::to_string(count * sizeof(Number)) +
                                           " bytes for " + std::to_string(count) + " " + what + " elements"};
  }
  return {};
}

}  // namespace

Result<FloatArray> to_floats(Bytes data, Element element, const Shape& shape, Order order,
                             Precision precision) {
  if (precision == Precision::f32 || element != Element::f64) return to_f32(data, element, shape, order);
  FloatArray array;
  array.shape = shape;
  array.stored = element;
  if (Status status = allocate(array.wide, data.size() / sizeof(double), "f64"); !status.ok()) return status;
  if (array.wide.empty()) return array;
  if (Status status = convert<FromF64Whole>(data, shape, order, array.wide); !status.ok()) return status;
  return array;
}

Result<IntegerArray> to_integers(Bytes data, Element element, const Shape& shape, Order order) {
  if (element != Element::i32 && element != Element::i64)
    return Status(StatusCode::invalid_argument,
                  std::string("dtype is ") + element_name(element) + "; allowed are i32 and i64");
  IntegerArray array;
  array.shape = shape;
  if (Status status = allocate(array.values, data.size() / element_bytes(element), "i64"); !status.ok())
    return status;
  if (array.values.empty()) return array;
  const Status status = element == Element::i32
                            ? convert<FromInteger<std::int32_t>>(data, shape, order, array.values)
                            : convert<FromInteger<std::int64_t>>(data, shape, order, array.values);
  if (!status.ok()) return status;
  return array;
}

Result<MaskArray> to_mask(Bytes data, const Shape& shape, Order order) {
  MaskArray array;
  array.shape = shape;
  try {
    array.values.resize(data.size());
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::out_of_memory,
                  "cannot allocate " + std::to_string(data.size()) + " bytes for a mask");
  }
  if (Status status = convert<FromBoolean>(data, shape, order, array.values); !status.ok()) return status;
  return array;
}

}  // namespace runmax::files
