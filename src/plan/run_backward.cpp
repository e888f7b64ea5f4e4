// Running a backward plan: every view is checked against it first, so that no kernel sees a wrong shape.
#include <array>
#include <new>
#include <string>

#include "plan/forms.hpp"
#include "plan/views.hpp"
#include "registry/registry.hpp"
#include "runmax/backward.hpp"
#include "runtime/cuda_runtime.hpp"
#include "runtime/device_memory.hpp"

namespace runmax {
namespace {

// What a view must be. In a dimension that broadcasts, 1 may stand for the size.
struct Expected {
  const char* name;
  const TensorView& view;
  DType dtype;
  Shape4 shape;
  bool output;
  std::array<bool, 4> broadcasts{};
};

Status check_view(const Expected& expected, Device device) {
  Shape4 shape = expected.shape;
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (expected.broadcasts[axis] && expected.view.shape[axis] == 1) shape[axis] = 1;
  if (Status status = check_view(expected.name, expected.view, expected.dtype, shape, device); !status.ok())
    return status;
  return expected.output ? check_distinct(expected.name, expected.view) : Status();
}

// The tensor of an option, or its gradient: there only if the problem has the option.
Status check_option(const Expected& expected, bool has_option, const char* option, bool wanted,
                    Device device) {
  if (has_option && wanted) return check_view(expected, device);
  if (has_option || expected.view.data == nullptr) return {};
  return {StatusCode::invalid_argument,
          std::string(expected.name) + ": the problem has no " + option + "; leave this view empty"};
}

// Of LSE, dBias and dSink.
DType wide_dtype(const Problem& p) { return p.dtype == DType::f64 ? DType::f64 : DType::f32; }

Status check_options(const Problem& p, const Tensors& t, const Gradients& g, Device device) {
  const Shape4 scores{p.batch, p.query_heads, p.query_len, p.kv_len}, heads{1, p.query_heads, 1, 1};
  const std::array<bool, 4> all{true, true, true, true};
  for (Status status :
       {check_option({"mask", t.mask, DType::boolean, scores, false, all}, p.mask, "mask", true, device),
        check_option({"bias", t.bias, bias_dtype(p, t.bias), scores, false, all}, p.bias, "bias", true,
                     device),
        check_option(
            {"alibi_slopes", t.alibi_slopes, DType::f32, {p.batch, p.query_heads, 1, 1}, false, {true}},
            p.alibi, "alibi", true, device),
        check_option({"sink", t.sink, DType::f32, heads, false}, p.sink, "sink", true, device),
        check_option({"dbias", g.dbias, wide_dtype(p), t.bias.shape, true}, p.bias, "bias",
                     g.dbias.data != nullptr, device),
        check_option({"dsink", g.dsink, wide_dtype(p), heads, true}, p.sink, "sink", g.dsink.data != nullptr,
                     device)})
    if (!status.ok()) return status;
  return {};
}

}  // namespace

Status run_backward(const Plan& plan, const Tensors& tensors, const Gradients& gradients, Workspace workspace,
                    Stream stream) {
  const Problem& p = plan.problem;
  const KernelEntry* kernel = find_backward_kernel(plan.kernel);
  if (!kernel || !kernel->run_backward)
    return {StatusCode::invalid_argument,
            "plan: '" + plan.kernel +
                "' is no backward kernel of this library; make the plan with plan_backward"};
  const OperandShapes shapes = operand_shapes(p, tensors);
  for (const Expected& expected : {Expected{"q", tensors.q, p.dtype, shapes.q, false},
                                   Expected{"k", tensors.k, p.dtype, shapes.k, false},
                                   Expected{"v", tensors.v, p.dtype, shapes.v, false},
                                   Expected{"o", tensors.o, p.dtype, shapes.o, false},
                                   Expected{"lse", tensors.lse, wide_dtype(p), shapes.lse, false},
                                   Expected{"dout", gradients.dout, p.dtype, shapes.o, false},
                                   Expected{"dq", gradients.dq, p.dtype, shapes.q, true},
                                   Expected{"dk", gradients.dk, p.dtype, shapes.k, true},
                                   Expected{"dv", gradients.dv, p.dtype, shapes.v, true}})
    if (Status status = check_view(expected, plan.device); !status.ok()) return status;
  if (Status status = check_form_views(p, tensors, shapes, plan.device); !status.ok()) return status;
  // Backward has kernels on the CPU alone.
  if (Status status = check_form_values(p, tensors, FormValues::readable); !status.ok()) return status;
  if (Status status = check_options(p, tensors, gradients, plan.device); !status.ok()) return status;
  if (workspace.bytes < plan.workspace_bytes)
    return {StatusCode::workspace_too_small, "workspace: needs " + std::to_string(plan.workspace_bytes) +
                                                 " bytes, got " + std::to_string(workspace.bytes)};
  if (plan.workspace_bytes > 0 && workspace.data == nullptr)
    return {StatusCode::invalid_argument,
            "workspace: data is null, needs " + std::to_string(plan.workspace_bytes) + " bytes"};
  if (gradients.dq.elements() == 0 && gradients.dk.elements() == 0 && gradients.dv.elements() == 0 &&
      gradients.dbias.data == nullptr && gradients.dsink.data == nullptr)
    return {};
  try {
    if (plan.device.kind != DeviceKind::cuda)
      return kernel->run_backward(plan, tensors, gradients, workspace, stream);
    const CurrentDevice current(plan.device.index);
    if (!current.status().ok()) return current.status();
    return kernel->run_backward(plan, tensors, gradients, workspace, stream);
  } catch (const std::bad_alloc&) {
    return {StatusCode::out_of_memory, std::string(kernel->name) + ": out of host memory"};
  } catch (const std::exception& error) {
    return {StatusCode::internal_error, std::string(kernel->name) + ": " + error.what()};
  }
}

}  // namespace runmax
