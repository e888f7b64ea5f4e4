// Merging two finished partial results, with the algebra of online_softmax.hpp.
#include <string>

#include "runmax/runmax.hpp"

namespace runmax {
namespace {

float& at(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
  return static_cast<float*>(
      view.data)[b * view.strides[0] + h * view.strides[1] + i * view.strides[2] + c * view.strides[3]];
}

Status check(const char* name, const TensorView& view, const std::array<std::int64_t, 4>& shape) {
  if (view.dtype != DType::f32 || view.device.kind != DeviceKind::cpu)
    return {StatusCode::unsupported, std::string(name) + ": merge takes f32 tensors on the CPU"};
  if (view.shape != shape)
    return {StatusCode::invalid_argument, std::string(name) + ": shape differs from that of o"};
  if (view.data == nullptr && view.elements() != 0)
    return {StatusCode::invalid_argument, std::string(name) + ": data is null"};
  return {};
}

}  // namespace

Status merge(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b, const TensorView& lse_b,
             const TensorView& o, const TensorView& lse) {
  std::array<std::int64_t, 4> lse_shape = o.shape;
  lse_shape[3] = 1;
  for (Status status :
       {check("o", o, o.shape), check("o_a", o_a, o.shape), check("o_b", o_b, o.shape),
        check("lse", lse, lse_shape), check("lse_a", lse_a, lse_shape), check("lse_b", lse_b, lse_shape)})
    if (!status.ok()) return status;
  const StandardExp exp;
  for (std::int64_t b = 0; b < o.shape[0]; ++b)
    for (std::int64_t h = 0; h < o.shape[1]; ++h)
      for (std::int64_t i = 0; i < o.shape[2]; ++i) {
        // A finished result is a state whose max is its LSE and whose sum is 1 (0 if it saw no key).
        const float max_a = at(lse_a, b, h, i, 0), max_b = at(lse_b, b, h, i, 0);
        const auto state = [](float lse_value) {
          return SoftmaxState<float>{lse_value, lse_value == negative_infinity<float>() ? 0.0f : 1.0f};
        };
        const auto merged = softmax_merge(state(max_a), state(max_b), exp);
        const float normalizer = softmax_normalizer(merged.state);
        for (std::int64_t c = 0; c < o.shape[3]; ++c)
          at(o, b, h, i, c) = merged.output(at(o_a, b, h, i, c), at(o_b, b, h, i, c)) * normalizer;
        at(lse, b, h, i, 0) = softmax_lse(merged.state);
      }
  return {};
}

}  // namespace runmax
