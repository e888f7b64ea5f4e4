#include "files/safetensors.hpp"
#include "fuzz/promise.hpp"
#include "fuzz/targets.hpp"

namespace runmax::fuzz {

void safetensors_target(Bytes input) {
  const Result<std::vector<files::TensorEntry>> parsed = files::parse_safetensors(input);
  if (!parsed.ok()) return promise_one_line(parsed.status());
  std::size_t covered = 0;
  for (const files::TensorEntry& tensor : parsed.value()) {
    promise(tensor.data.empty() || (tensor.data.data() >= input.data() + 8 &&
                                    tensor.data.data() + tensor.data.size() <= input.data() + input.size()),
            "a tensor lies in the input");
    covered += tensor.data.size();
    const Result<files::MaskArray> mask = files::tensor_to_mask(parsed.value(), tensor.name);
    if (mask.ok())
      promise(mask.value().values.size() == tensor.data.size(), "every boolean is converted");
    else
      promise_one_line(mask.status());
    const Result<files::FloatArray> array = files::tensor_to_f32(parsed.value(), tensor.name);
    if (!array.ok()) {
      promise_one_line(array.status());
      continue;
    }
    promise(array.value().shape == tensor.shape, "the shape is kept");
    promise(array.value().values.size() == tensor.data.size() / files::element_bytes(array.value().stored),
            "every element is converted");
    const std::string header = files::safetensors_header({{tensor.name, tensor.shape}});
    promise(header.size() % 8 == 0, "written elements are aligned");
  }
  promise(covered < input.size(), "tensors do not overlap");
  promise_one_line(files::tensor_to_f32(parsed.value(), "a name that no corpus has").status());
}

}  // namespace runmax::fuzz
