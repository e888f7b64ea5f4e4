// The .npy array format, versions 1.0, 2.0 and 3.0.
//
// Layout (numpy.lib.format): "\x93NUMPY", one byte each of major and minor version, the header's length
// (2 bytes little-endian in 1.0, 4 from 2.0 on), the header, the elements. The header is a Python dictionary
// literal with exactly the keys 'descr', 'fortran_order' and 'shape'.
#pragma once

#include <string>

#include "files/elements.hpp"

namespace runmax::files {

// What a file holds; `data` is a view into the bytes given.
struct NpyView {
  Element element = Element::f32;
  Order order = Order::c;
  Shape shape;
  Bytes data;
};

// What the elements must be: '<f2', '<f4' or '<f8'; '|b1' or '|u1'; '<i4' or '<i8'.
enum class Elements { numbers, booleans, integers };

// Reads the whole of a .npy file: the elements must fill the rest of the bytes exactly. An error is one line
// saying what is wrong, without the file's name. Nothing is allocated by a size that the file claims.
Result<NpyView> parse_npy(Bytes bytes, Elements wanted = Elements::numbers);

// What stands before the elements of a C-order array of f32, f16 or f64: version 1.0, padded to a multiple of
// 64 bytes.
std::string npy_header(const Shape& shape, Element element = Element::f32);

// Reads a file of floating-point numbers. Errors begin with the path.
Result<FloatArray> read_npy(const std::string& path, Precision precision = Precision::f32);

// The same for integers.
Result<IntegerArray> read_npy_integers(const std::string& path);

// The same for a mask: any byte but 0 is true.
Result<MaskArray> read_npy_mask(const std::string& path);

}  // namespace runmax::files
