// The safetensors format: named tensors, little-endian, C order.
//
// Layout (github.com/huggingface/safetensors): the header's length as 8 bytes little-endian, the header, the
// data. The header is a JSON object that begins with '{' at once and may be padded with spaces; each member
// is a tensor {"dtype": ..., "shape": [...], "data_offsets": [begin, end]} with offsets into the data, or
// "__metadata__", an object of strings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "files/elements.hpp"

namespace runmax::files {

// One tensor; `data` is a view into the bytes given.
struct TensorEntry {
  std::string name;
  std::string dtype;  // as the file spells it: "F32", "BF16", "I64", ...
  Shape shape;
  Bytes data;
};

// Reads and checks a whole file as the reference implementation does: the header fits in the file and is at
// most 100,000,000 bytes; every dtype is known; shape times element size equals the tensor's byte range; the
// ranges, sorted, cover the data without overlap or hole. Beyond the reference, a name that stands twice is
// refused. `__metadata__` is checked and skipped. The tensors come in the order of their data. An error is
// one line, without the file's name.
Result<std::vector<TensorEntry>> parse_safetensors(Bytes bytes);

// The tensor of that name. Its dtype must be F32, F16, BF16 or F64.
Result<FloatArray> tensor_to_f32(const std::vector<TensorEntry>& tensors, std::string_view name,
                                 Precision precision = Precision::f32);

// The tensor of that name. Its dtype must be I32 or I64.
Result<IntegerArray> tensor_to_integers(const std::vector<TensorEntry>& tensors, std::string_view name);

// The tensor of that name as a mask. Its dtype must be BOOL or U8; any byte but 0 is true.
Result<MaskArray> tensor_to_mask(const std::vector<TensorEntry>& tensors, std::string_view name);

bool has_tensor(const std::vector<TensorEntry>& tensors, std::string_view name);

// What stands before the data of tensors of these names, shapes and types, which follow one another without a
// gap; padded with spaces so that the data begins at a multiple of 8 bytes.
struct TensorHeader {
  std::string name;
  Shape shape;
  Element element = Element::f32;
};
std::string safetensors_header(const std::vector<TensorHeader>& tensors);

}  // namespace runmax::files
