#include "check/host_tensor.hpp"

#include <algorithm>
#include <cstring>

#include "problem/format16.hpp"

namespace runmax::check {
namespace {

template <class Element>
void store(unsigned char* memory, std::size_t index, Element element) {
  std::memcpy(memory + index * sizeof(Element), &element, sizeof element);
}

template <class Element>
Element load(const unsigned char* memory, std::size_t index) {
  Element element;
  std::memcpy(&element, memory + index * sizeof(Element), sizeof element);
  return element;
}

}  // namespace

std::vector<unsigned char> encode(const HostTensor& tensor) {
  std::vector<unsigned char> memory(tensor.bytes());
  for (std::size_t i = 0; i < tensor.storage.size(); ++i) {
    const float narrow = tensor.storage[i];
    const double wide = tensor.wide.empty() ? static_cast<double>(narrow) : tensor.wide[i];
    switch (tensor.dtype) {
      case DType::f32:
        store(memory.data(), i, narrow);
        break;
      case DType::f16:
        store(memory.data(), i, encode16(format_f16, wide));
        break;
      case DType::bf16:
        store(memory.data(), i, encode16(format_bf16, wide));
        break;
      case DType::f64:
        store(memory.data(), i, wide);
        break;
      case DType::i32:
        store(memory.data(), i, static_cast<std::int32_t>(wide));
        break;
      case DType::e4m3:
      case DType::i8:
      case DType::boolean:
        store(memory.data(), i, static_cast<std::uint8_t>(wide));
        break;
    }
  }
  return memory;
}

void decode(const unsigned char* memory, HostTensor& tensor) {
  tensor.wide.assign(tensor.dtype == DType::f64 ? tensor.storage.size() : 0, 0.0);
  for (std::size_t i = 0; i < tensor.storage.size(); ++i) {
    float& value = tensor.storage[i];
    switch (tensor.dtype) {
      case DType::f32:
        value = load<float>(memory, i);
        break;
      case DType::f16:
        value = decode16(format_f16, load<std::uint16_t>(memory, i));
        break;
      case DType::bf16:
        value = decode16(format_bf16, load<std::uint16_t>(memory, i));
        break;
      case DType::f64:
        tensor.wide[i] = load<double>(memory, i);
        value = static_cast<float>(tensor.wide[i]);
        break;
      case DType::i32:
        value = static_cast<float>(load<std::int32_t>(memory, i));
        break;
      case DType::e4m3:
      case DType::i8:
      case DType::boolean:
        value = static_cast<float>(load<std::uint8_t>(memory, i));
        break;
    }
  }
}

HostTensor take_output(const char* name, const unsigned char* memory, const HostTensor& like,
                       std::string& trespass) {
  HostTensor output = like;
  if (output.storage.empty()) return output;
  decode(memory, output);
  std::vector<bool> reached(output.storage.size(), false);
  for (std::int64_t b = 0; b < like.shape[0]; ++b)
    for (std::int64_t h = 0; h < like.shape[1]; ++h)
      for (std::int64_t i = 0; i < like.shape[2]; ++i)
        for (std::int64_t c = 0; c < like.shape[3]; ++c)
          reached[static_cast<std::size_t>(like.index(b, h, i, c))] = true;
  const auto size = static_cast<std::size_t>(dtype_bytes(output.dtype));
  for (std::size_t at = 0; at < reached.size() && trespass.empty(); ++at) {
    const unsigned char* bytes = memory + at * size;
    if (!reached[at] && std::any_of(bytes, bytes + size, [](unsigned char byte) { return byte != 0xFF; }))
      trespass = std::string(name) + ": the padding between its elements was written, at element " +
                 std::to_string(at) + " of its memory";
  }
  return output;
}

}  // namespace runmax::check
