// Elements as they lie in files, and their conversion in C order: numbers to FP32, and those of a mask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runmax/status.hpp"

namespace runmax::files {

using Bytes = std::span<const std::byte>;
using Shape = std::vector<std::int64_t>;

// Little-endian in every file that is read here. `boolean` is one byte; the integers are those of tables and
// lengths.
enum class Element { f16, bf16, f32, f64, boolean, i32, i64 };

// "f16", "bf16", "f32", "f64", "bool", "i32" or "i64".
const char* element_name(Element element);
std::size_t element_bytes(Element element);

// Which index of a shape runs fastest in memory: the last (C) or the first (Fortran).
enum class Order { c, fortran };

// "(2, 3)", "(5,)", "()": as Python prints a shape, whatever the locale.
std::string shape_text(const Shape& shape);

// Text from a file in quotes, made fit for one line of an error message: cut at 40 bytes, and what is not
// printable ASCII replaced by '?'.
std::string in_quotes(std::string_view text);

// Product of the lengths; false if it, or one of its partial products over the lengths that are not zero,
// exceeds `limit`.
bool count_elements(const Shape& shape, std::uint64_t limit, std::uint64_t& count);

// An array in memory, C order. `stored` is what the file held.
struct FloatArray {
  Shape shape;
  Element stored = Element::f32;
  std::vector<float> values;
  std::vector<double> wide;  // in the place of values, where f64 was asked to stay what it is
};

// Converts an array whose `data` holds exactly the elements of `shape`, at any alignment. f64 is rounded to
// the nearest f32 (ties to even); a finite f64 that would become infinite is an error naming its index. NaN
// stays NaN, infinities and zeros keep their sign.
Result<FloatArray> to_f32(Bytes data, Element element, const Shape& shape, Order order);

// f32: as to_f32 does. stored: f64 stays f64, in `wide`; the other types are numbers that f32 holds.
enum class Precision { f32, stored };
Result<FloatArray> to_floats(Bytes data, Element element, const Shape& shape, Order order,
                             Precision precision);

// i32 or i64.
struct IntegerArray {
  Shape shape;
  std::vector<std::int64_t> values;
};
Result<IntegerArray> to_integers(Bytes data, Element element, const Shape& shape, Order order);

struct MaskArray {
  Shape shape;
  std::vector<std::uint8_t> values;  // 0 or 1
};

// The same for booleans: any byte but 0 is true.
Result<MaskArray> to_mask(Bytes data, const Shape& shape, Order order);

}  // namespace runmax::files
