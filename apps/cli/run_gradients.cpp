#include "cli/run_gradients.hpp"

#include <chrono>

#include "runtime/device_memory.hpp"

namespace runmax::cli {
namespace {

Status usage(const std::string& rule) { return {StatusCode::invalid_argument, rule}; }

bool any_gradient(const RunArguments& a) {
  for (const auto& [option, path] : gradient_paths(a))
    if (!path->empty()) return true;
  return false;
}

}  // namespace

std::vector<std::pair<const char*, const std::string*>> gradient_paths(const RunArguments& a) {
  return {{"--dq", &a.dq}, {"--dk", &a.dk}, {"--dv", &a.dv}, {"--dbias", &a.dbias}, {"--dsink", &a.dsink}};
}

std::vector<NamedGradient> named_gradients(const RunArguments& a, const GradientArrays& arrays) {
  std::vector<NamedGradient> named{{"--dq", "dq", a.dq, arrays.dq, arrays.dq_shape, arrays.element},
                                   {"--dk", "dk", a.dk, arrays.dk, arrays.dk_shape, arrays.element},
                                   {"--dv", "dv", a.dv, arrays.dv, arrays.dv_shape, arrays.element}};
  if (!arrays.dbias_shape.empty())
    named.push_back({"--dbias", "dbias", a.dbias, arrays.dbias, arrays.dbias_shape, arrays.shared_element});
  if (!arrays.dsink_shape.empty())
    named.push_back({"--dsink", "dsink", a.dsink, arrays.dsink, arrays.dsink_shape, arrays.shared_element});
  return named;
}

Status check_gradient_paths(const RunArguments& a) {
  if (!a.in.empty()) {
    if (!a.dout.empty()) return usage("--dout: with --in, it is the tensor 'dout'; leave --dout out");
    for (const auto& [option, path] : gradient_paths(a))
      if (!path->empty())
        return usage(std::string(option) + ": with --in, gradients are tensors of --out; leave " + option +
                     " out");
    return {};
  }
  if (a.dout.empty()) {
    for (const auto& [option, path] : gradient_paths(a))
      if (!path->empty()) return usage(std::string(option) + ": needs --dout, the gradient of the output");
    return {};
  }
  if (!any_gradient(a))
    return usage("--dout: needs a gradient to write; give --dq, --dk, --dv, --dbias or --dsink");
  if (!a.dbias.empty() && a.bias.empty()) return usage("--dbias: needs --bias");
  if (!a.dsink.empty() && a.sink.empty()) return usage("--dsink: needs --sink");
  return {};
}

Result<GradientArrays> compute_gradients(const Problem& p, const DeviceFacts& facts,
                                         const RunArguments& arguments, const Tensors& forward,
                                         const NamedArray& dout, std::span<const std::byte> dout_bytes,
                                         Layout layout, const files::Shape& q_shape,
                                         const files::Shape& k_shape, const files::Shape& v_shape) {
  const files::Shape wanted = output_shape(q_shape, p);
  if (dout.array.shape != wanted)
    return usage(dout.source + ": the shape of dout must be that of the output, " +
                 files::shape_text(wanted) + ", got " + files::shape_text(dout.array.shape));
  Result<Plan> planned = plan_backward(p, facts, {.kernel = "", .threads = arguments.threads});
  if (!planned.ok()) return planned.status();
  GradientArrays result;
  result.kernel = planned.value().kernel;
  result.element = element_of(p.dtype);
  result.shared_element = element_of(lse_type(p.dtype));
  result.dq_shape = q_shape;
  result.dk_shape = k_shape;
  result.dv_shape = v_shape;
  // A view of an output, with memory of its size.
  const auto output = [](std::vector<std::byte>& data, DType dtype, std::array<std::int64_t, 4> shape,
                         Layout of) {
    TensorView view = packed_view(nullptr, dtype, shape, of);
    data.resize(static_cast<std::size_t>(view.elements() * dtype_bytes(dtype)));
    view.data = data.data();
    return view;
  };
  Gradients gradients;
  gradients.dout = packed_view(dout_bytes.data(), p.dtype, canonical_shape(dout.array.shape, layout), layout);
  gradients.dq = output(result.dq, p.dtype, canonical_shape(q_shape, layout), layout);
  gradients.dk = output(result.dk, p.dtype, canonical_shape(k_shape, layout), layout);
  gradients.dv = output(result.dv, p.dtype, canonical_shape(v_shape, layout), layout);
  if (p.bias) {
    const auto& shape = forward.bias.shape;
    result.dbias_shape = {shape[0], shape[1], shape[2], shape[3]};
    gradients.dbias = output(result.dbias, lse_type(p.dtype), shape, Layout::bhsd);
  }
  if (p.sink) {
    result.dsink_shape = {p.query_heads};
    gradients.dsink = output(result.dsink, lse_type(p.dtype), {1, p.query_heads, 1, 1}, Layout::bhsd);
  }
  Result<DeviceMemory> workspace = DeviceMemory::allocate({}, planned.value().workspace_bytes);
  if (!workspace.ok()) return workspace.status();
  const auto begin = std::chrono::steady_clock::now();
  const Status status = run_backward(planned.value(), forward, gradients,
                                     {workspace.value().data(), workspace.value().bytes()});
  result.time_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  if (!status.ok()) return status;
  return result;
}

files::Element element_of(DType dtype) {
  return dtype == DType::f16    ? files::Element::f16
         : dtype == DType::bf16 ? files::Element::bf16
         : dtype == DType::f64  ? files::Element::f64
                                : files::Element::f32;
}
DType lse_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace runmax::cli
