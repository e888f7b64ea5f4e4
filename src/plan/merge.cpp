// Merging two finished partial results, with the algebra of online_softmax.hpp in double.
#include <cstdint>
#include <string>

#include "plan/views.hpp"
#include "runmax/runmax.hpp"

namespace runmax {
namespace {

float& at(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
  return static_cast<float*>(
      view.data)[b * view.strides[0] + h * view.strides[1] + i * view.strides[2] + c * view.strides[3]];
}

Status check(const char* name, const TensorView& view, const Shape4& shape) {
  if (view.dtype != DType::f32 || view.device.kind != DeviceKind::cpu)
    return {StatusCode::unsupported, std::string(name) + ": merge takes f32 tensors on the CPU, got " +
                                         std::string(dtype_name(view.dtype)) + " on " +
                                         std::string(device_kind_name(view.device.kind))};
  for (const std::int64_t size : view.shape)
    if (size < 0) return invalid(name, "shape must not be negative, got " + shape_text(view.shape));
  if (view.shape != shape)
    return invalid(name, "shape must be " + shape_text(shape) + " to fit o, got " + shape_text(view.shape));
  return check_memory(name, view, DType::f32, view.device);
}

}  // namespace

Status merge(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b, const TensorView& lse_b,
             const TensorView& o, const TensorView& lse) {
  std::array<std::int64_t, 4> lse_shape = o.shape;
  lse_shape[3] = 1;
  for (Status status : {check("o", o, o.shape), check("o_a", o_a, o.shape), check("o_b", o_b, o.shape),
                        check("lse", lse, lse_shape), check("lse_a", lse_a, lse_shape),
                        check("lse_b", lse_b, lse_shape), check_distinct("o", o), check_distinct("lse", lse)})
    if (!status.ok()) return status;

  // A finished result is a state whose max is its LSE and whose sum is 1 (0 if it saw no key).
  const auto state = [](double value) {
    return SoftmaxState<double>{value, value == negative_infinity<double>() ? 0.0 : 1.0};
  };
  const StandardExp exp;
  for (std::int64_t b = 0; b < o.shape[0]; ++b)
    for (std::int64_t h = 0; h < o.shape[1]; ++h)
      for (std::int64_t i = 0; i < o.shape[2]; ++i) {
        const auto merged = softmax_merge(state(at(lse_a, b, h, i, 0)), state(at(lse_b, b, h, i, 0)), exp);
        const double normalizer = softmax_normalizer(merged.state);
        for (std::int64_t c = 0; c < o.shape[3]; ++c)
          at(o, b, h, i, c) = static_cast<float>(merged.output(static_cast<double>(at(o_a, b, h, i, c)),
                                                               static_cast<double>(at(o_b, b, h, i, c))) *
                                                 normalizer);
        at(lse, b, h, i, 0) = static_cast<float>(softmax_lse(merged.state));
      }
  return {};
}

}  // namespace runmax
