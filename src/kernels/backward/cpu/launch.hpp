// Host-side interface of the CPU backward kernels, for the registry and the tests.
#pragma once

#include <optional>
#include <string>

#include "runmax/backward.hpp"

namespace runmax::cpu {

std::optional<std::string> backward_refuses(const Problem&, const DeviceFacts&, const PlanOptions&);
void fill_backward_plan(Plan&, const DeviceFacts&, const PlanOptions&);
Status run_backward(const Plan&, const Tensors&, const Gradients&, Workspace, Stream);

// In double precision.
std::optional<std::string> double_backward_refuses(const Problem&, const DeviceFacts&, const PlanOptions&);
void fill_double_backward_plan(Plan&, const DeviceFacts&, const PlanOptions&);
Status run_double_backward(const Plan&, const Tensors&, const Gradients&, Workspace, Stream);

}  // namespace runmax::cpu
