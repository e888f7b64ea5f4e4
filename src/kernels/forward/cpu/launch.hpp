// Host-side interface of the CPU forward kernels, for the registry and the tests.
#pragma once

#include <optional>
#include <string>

#include "runmax/runmax.hpp"

namespace runmax::cpu {

// The engine: key tiles, an online maximum, no score matrix.
std::optional<std::string> online_refuses(const Problem&, const DeviceFacts&, const PlanOptions&);
void fill_online_plan(Plan&, const DeviceFacts&, const PlanOptions&);
Status run_online(const Plan&, const Tensors&, Workspace, Stream);

// The engine in double precision.
std::optional<std::string> double_refuses(const Problem&, const DeviceFacts&, const PlanOptions&);
void fill_double_plan(Plan&, const DeviceFacts&, const PlanOptions&);
Status run_double(const Plan&, const Tensors&, Workspace, Stream);

// The baseline: the whole score matrix in the workspace, three phases, the same SIMD loops and threads.
std::optional<std::string> naive_refuses(const Problem&, const DeviceFacts&, const PlanOptions&);
void fill_naive_plan(Plan&, const DeviceFacts&, const PlanOptions&);
Status run_naive(const Plan&, const Tensors&, Workspace, Stream);

}  // namespace runmax::cpu
