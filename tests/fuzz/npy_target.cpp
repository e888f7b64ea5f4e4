#include <bit>
#include <cstring>

#include "files/npy.hpp"
#include "fuzz/promise.hpp"
#include "fuzz/targets.hpp"

namespace runmax::fuzz {

// The same bytes as a mask.
void npy_mask(Bytes input) {
  const Result<files::NpyView> parsed = files::parse_npy(input, files::Elements::booleans);
  if (!parsed.ok()) return promise_one_line(parsed.status());
  const files::NpyView& view = parsed.value();
  const Result<files::MaskArray> mask = files::to_mask(view.data, view.shape, view.order);
  if (!mask.ok()) return promise_one_line(mask.status());
  promise(mask.value().values.size() == view.data.size(), "every boolean is converted");
  for (const std::uint8_t value : mask.value().values) promise(value <= 1, "a boolean is 0 or 1");
}

void npy_target(Bytes input) {
  npy_mask(input);
  const Result<files::NpyView> parsed = files::parse_npy(input);
  if (!parsed.ok()) return promise_one_line(parsed.status());
  const files::NpyView& view = parsed.value();
  promise(view.data.empty() || (view.data.data() >= input.data() &&
                                view.data.data() + view.data.size() == input.data() + input.size()),
          "the elements are the end of the input");
  const Result<files::FloatArray> array = files::to_f32(view.data, view.element, view.shape, view.order);
  if (!array.ok()) return promise_one_line(array.status());
  const std::vector<float>& values = array.value().values;
  promise(values.size() == view.data.size() / files::element_bytes(view.element),
          "every element is converted");

  std::string written = files::npy_header(view.shape);
  promise(written.size() % 64 == 0, "written elements are aligned");
  written.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  const Result<files::NpyView> again =
      files::parse_npy({reinterpret_cast<const std::byte*>(written.data()), written.size()});
  // Only a shape whose product with a zero left out overflows at 4 bytes, but not at 2, is not writable.
  if (!again.ok()) return promise(values.empty(), "what is written can be read");
  promise(again.value().shape == view.shape && again.value().element == files::Element::f32 &&
              again.value().order == files::Order::c,
          "what is written is read with the same shape");
  promise(
      values.empty() || std::memcmp(again.value().data.data(), values.data(), again.value().data.size()) == 0,
      "what is written is read with the same elements");
}

}  // namespace runmax::fuzz
