// Running a backward plan in the caller's workspace.
#pragma once

#include <cstdint>

#include "runmax/backward.hpp"

namespace runmax::cpu {

// Run(plan, tensors, gradients, memory) lays out its memory and has workspace_bytes(), run(), and clear() for
// a plan without work, whose outputs may have elements nevertheless.
template <class Run>
Status run_backward_in_workspace(const Plan& plan, const Tensors& tensors, const Gradients& gradients,
                                 Workspace workspace) {
  Run run(plan, tensors, gradients, workspace.data);
  if (plan.work_items == 0) {
    run.clear();
    return {};
  }
  if (static_cast<std::int64_t>(workspace.bytes) < run.workspace_bytes())
    return {StatusCode::invalid_argument,
            "plan: was changed after planning; its workspace no longer suffices"};
  run.run();
  return {};
}

}  // namespace runmax::cpu
