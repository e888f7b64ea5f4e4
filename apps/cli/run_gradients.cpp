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
  std::vector<NamedGradient> named{{"--dq", "dq", a.dq, arrays.dq, arrays.dq_shape},
                                   {"--dk", "dk", a.dk, arrays.dk, arrays.dk_shape},
                                   {"--dv", "dv", a.dv, arrays.dv, arrays.dv_shape}};
  if (!arrays.dbias_shape.empty())
    named.push_back({"--dbias", "dbias", a.dbias, arrays.dbias, arrays.dbias_shape});
  if (!arrays.dsink_shape.empty())
    named.push_back({"--dsink", "dsink", a.dsink, arrays.dsink, arrays.dsink_shape});
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
                                         const NamedArray& dout, Layout layout, const files::Shape& q_shape,
                                         const files::Shape& k_shape, const files::Shape& v_shape) {
  const files::Shape wanted = output_shape(q_shape, p);
  if (dout.array.shape != wanted)
    return usage(dout.source + ": the shape of dout must be that of the output, " +
                 files::shape_text(wanted) + ", got " + files::shape_text(dout.array.shape));
  Result<Plan> planned = plan_backward(p, facts, {.kernel = "", .threads = arguments.threads});
  if (!planned.ok()) return planned.status();
  const auto count = [](std::int64_t elements) { return static_cast<std::size_t>(elements); };
  GradientArrays result;
  result.kernel = planned.value().kernel;
  result.dq_shape = q_shape;
  result.dk_shape = k_shape;
  result.dv_shape = v_shape;
  result.dq.resize(count(p.batch * p.query_heads * p.query_len * p.head_dim));
  result.dk.resize(count(p.batch * p.kv_heads * p.kv_len * p.head_dim));
  result.dv.resize(count(p.batch * p.kv_heads * p.kv_len * p.value_dim));
  const auto view = [&](const std::vector<float>& data, const files::Shape& shape) {
    return packed_view(data.data(), DType::f32, canonical_shape(shape, layout), layout);
  };
  Gradients gradients;
  gradients.dout = view(dout.array.values, dout.array.shape);
  gradients.dq = view(result.dq, q_shape);
  gradients.dk = view(result.dk, k_shape);
  gradients.dv = view(result.dv, v_shape);
  if (p.bias) {
    const auto& shape = forward.bias.shape;
    result.dbias_shape = {shape[0], shape[1], shape[2], shape[3]};
    result.dbias.resize(count(forward.bias.elements()));
    gradients.dbias = packed_view(result.dbias.data(), DType::f32, shape, Layout::bhsd);
  }
  if (p.sink) {
    result.dsink_shape = {p.query_heads};
    result.dsink.resize(count(p.query_heads));
    gradients.dsink = packed_view(result.dsink.data(), DType::f32, {1, p.query_heads, 1, 1}, Layout::bhsd);
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

}  // namespace runmax::cli
