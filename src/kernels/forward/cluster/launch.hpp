// Host side of the cluster forward kernel: what it refuses, its plan, its launch.
#pragma once

#include <optional>
#include <string>

#include "runmax/runmax.hpp"

namespace runmax::cluster {

std::optional<std::string> forward_refuses(const Problem& problem, const DeviceFacts& facts,
                                           const PlanOptions& options);
void forward_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options);
// Defined only in a build with CUDA.
Status forward_run(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream stream);

}  // namespace runmax::cluster
