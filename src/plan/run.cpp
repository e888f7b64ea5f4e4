// Running a plan: every view is checked against it first, so that no kernel sees a wrong shape.
#include <new>
#include <string>

#include "plan/forms.hpp"
#include "plan/views.hpp"
#include "registry/registry.hpp"
#include "runtime/cuda_runtime.hpp"
#include "runtime/device_memory.hpp"

namespace runmax {
namespace {

// The tensor of an option: there if, and only if, the problem has the option. `shape` is the full one, and
// `broadcasts` says of each dimension whether 1 may stand in its place.
struct OptionTensor {
  const char* name;
  const char* field;  // of the problem
  const TensorView& view;
  bool asked;
  DType dtype;
  std::array<std::int64_t, 4> shape;
  std::array<bool, 4> broadcasts;
};

Status check_option(const OptionTensor& option, Device device) {
  const TensorView& view = option.view;
  if (!option.asked) {
    if (view.data == nullptr) return {};
    return invalid(option.name, "was given, but the problem has no " + std::string(option.field));
  }
  if (view.data == nullptr && view.elements() == 0 && option.shape[0] * option.shape[1] > 0 &&
      option.shape[2] * option.shape[3] > 0)
    return invalid(option.name, "is needed: the problem has the option");
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (view.shape[axis] == option.shape[axis] || (option.broadcasts[axis] && view.shape[axis] == 1))
      continue;
    std::string rule = "shape must be " + shape_text(option.shape);
    if (option.broadcasts != std::array<bool, 4>{}) {
      rule += " or have 1 in its place for";
      const char* names[] = {" batch", " heads", " queries", " keys"};
      const char* comma = "";
      for (std::size_t a = 0; a < 4; ++a)
        if (option.broadcasts[a]) {
          rule += comma + std::string(names[a]);
          comma = ",";
        }
    }
    return invalid(option.name, rule + ", got " + shape_text(view.shape));
  }
  return check_memory(option.name, view, option.dtype, device);
}

Status check_options(const Problem& p, const Tensors& t, Device device) {
  const std::array<std::int64_t, 4> scores{p.batch, p.query_heads, p.query_len, p.kv_len};
  const std::array<bool, 4> all{true, true, true, true};
  for (const OptionTensor& option :
       {OptionTensor{"mask", "mask", t.mask, p.mask, DType::boolean, scores, all},
        OptionTensor{"bias", "bias", t.bias, p.bias, bias_dtype(p, t.bias), scores, all},
        OptionTensor{"alibi_slopes",
                     "alibi",
                     t.alibi_slopes,
                     p.alibi,
                     DType::f32,
                     {p.batch, p.query_heads, 1, 1},
                     {true}},
        OptionTensor{"sink", "sink", t.sink, p.sink, DType::f32, {1, p.query_heads, 1, 1}, {}}})
    if (Status status = check_option(option, device); !status.ok()) return status;
  return {};
}

}  // namespace

Status run(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream stream) {
  const Problem& p = plan.problem;
  const KernelEntry* kernel = find_kernel(plan.kernel);
  if (find_backward_kernel(plan.kernel))
    return {StatusCode::invalid_argument,
            "plan: kernel '" + plan.kernel + "' computes gradients; run its plan with run_backward"};
  if (!kernel || !kernel->run)
    return {StatusCode::invalid_argument,
            "plan: kernel '" + plan.kernel + "' does not exist in this library"};
  const DType dtype = p.dtype;
  const OperandShapes shapes = operand_shapes(p, tensors);
  for (Status status : {check_view("q", tensors.q, dtype, shapes.q, plan.device),
                        check_view("k", tensors.k, dtype, shapes.k, plan.device),
                        check_view("v", tensors.v, dtype, shapes.v, plan.device),
                        check_view("o", tensors.o, dtype, shapes.o, plan.device),
                        check_distinct("o", tensors.o), check_form_views(p, tensors, shapes, plan.device)})
    if (!status.ok()) return status;
  if (tensors.lse.data)
    for (Status status : {check_view("lse", tensors.lse, dtype == DType::f64 ? DType::f64 : DType::f32,
                                     shapes.lse, plan.device),
                          check_distinct("lse", tensors.lse)})
      if (!status.ok()) return status;
  const FormValues values =
      plan.device.kind == DeviceKind::cpu ? FormValues::readable : FormValues::on_device;
  if (Status status = check_form_values(p, tensors, values); !status.ok()) return status;
  if (Status status = check_options(p, tensors, plan.device); !status.ok()) return status;
  if (workspace.bytes < plan.workspace_bytes)
    return {StatusCode::workspace_too_small, "workspace: needs " + std::to_string(plan.workspace_bytes) +
                                                 " bytes, got " + std::to_string(workspace.bytes)};
  if (plan.workspace_bytes > 0 && workspace.data == nullptr)
    return {StatusCode::invalid_argument,
            "workspace: data is null, needs " + std::to_string(plan.workspace_bytes) + " bytes"};
  if (p.batch == 0 || p.query_heads == 0 || p.query_len == 0) return {};
  try {
    if (plan.device.kind != DeviceKind::cuda) return kernel->run(plan, tensors, workspace, stream);
    const CurrentDevice current(plan.device.index);
    if (!current.status().ok()) return current.status();
    return kernel->run(plan, tensors, workspace, stream);
  } catch (const std::bad_alloc&) {
    return {StatusCode::out_of_memory, std::string(kernel->name) + ": out of host memory"};
  } catch (const std::exception& error) {
    return {StatusCode::internal_error, std::string(kernel->name) + ": " + error.what()};
  }
}

Status attention(const Tensors& tensors, const AttentionOptions& options, Stream stream) {
  Problem problem = options.options;
  take_operand_sizes(tensors, problem);
  // A tensor that is given asks for its option.
  problem.mask = problem.mask || tensors.mask.data != nullptr;
  problem.bias = problem.bias || tensors.bias.data != nullptr;
  problem.alibi = problem.alibi || tensors.alibi_slopes.data != nullptr;
  problem.sink = problem.sink || tensors.sink.data != nullptr;
  Result<DeviceFacts> facts = device_facts(tensors.q.device);
  if (!facts.ok()) return facts.status();
  Result<Plan> planned = plan(problem, facts.value(), options.plan);
  if (!planned.ok()) return planned.status();
  Result<DeviceMemory> memory = DeviceMemory::allocate(tensors.q.device, planned.value().workspace_bytes);
  if (!memory.ok()) return memory.status();
  const Workspace workspace{memory.value().data(), planned.value().workspace_bytes};
  Status status = run(planned.value(), tensors, workspace, stream);
  // The workspace dies here; a GPU may still be reading it.
  if (status.ok() && planned.value().workspace_bytes > 0) status = synchronize(tensors.q.device, stream);
  return status;
}

}  // namespace runmax
