// The ordered list of kernels. Each accepts a problem, or refuses with a reason; plan takes the first that
// accepts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "registry/features.hpp"
#include "runmax/backward.hpp"
#include "runmax/runmax.hpp"

namespace runmax {

// automatic: plan may choose it. by_name: a baseline for the lab and the tests, planned only when forced.
enum class Choice { automatic, by_name };

struct KernelEntry {
  std::string_view name;
  DeviceKind device = DeviceKind::cpu;
  Choice choice = Choice::automatic;
  std::string_view summary;
  std::string_view computed_as;
  Features serves;
  bool built = true;

  // A reason beyond `serves` (shape limits, device limits), or nothing. May be null.
  std::optional<std::string> (*refuses)(const Problem&, const DeviceFacts&, const PlanOptions&) = nullptr;
  // Fills block_q, block_kv, num_splits, work_items, threads, launches and workspace_bytes. Pure.
  void (*fill_plan)(Plan&, const DeviceFacts&, const PlanOptions&) = nullptr;
  // Runs a checked plan on checked tensors. Null when not built, and for a backward kernel.
  Status (*run)(const Plan&, const Tensors&, Workspace, Stream) = nullptr;
  // The same for a backward kernel.
  Status (*run_backward)(const Plan&, const Tensors&, const Gradients&, Workspace, Stream) = nullptr;
};

// Best first. Forward and backward kernels stand in lists of their own: a plan chooses from one of them.
std::span<const KernelEntry> kernels();
std::span<const KernelEntry> backward_kernels();

// The entry of that name, or null.
const KernelEntry* find_kernel(std::string_view name);
const KernelEntry* find_backward_kernel(std::string_view name);

// Why this kernel does not serve the problem on that device, or nothing.
std::optional<std::string> refusal(const KernelEntry& kernel, const Problem& problem,
                                   const DeviceFacts& facts, const PlanOptions& options);

}  // namespace runmax
