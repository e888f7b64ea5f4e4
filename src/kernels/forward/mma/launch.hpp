// Host side of the mma forward kernels: what they refuse, their plan, their launch.
#pragma once

#include <optional>
#include <string>

#include "runmax/runmax.hpp"

namespace runmax::mma_sync {

// m16n8k16 and cp.async: sm_80 and newer.
std::optional<std::string> m16n8k16_refuses(const Problem& problem, const DeviceFacts& facts,
                                            const PlanOptions& options);
void m16n8k16_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options);
// m16n8k8: sm_75; on newer devices by name.
std::optional<std::string> m16n8k8_refuses(const Problem& problem, const DeviceFacts& facts,
                                           const PlanOptions& options);
void m16n8k8_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options);

// Defined only in a build with CUDA.
Status m16n8k16_run(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream stream);
Status m16n8k8_run(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream stream);

}  // namespace runmax::mma_sync
