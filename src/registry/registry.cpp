#include "registry/registry.hpp"

#include <array>

#include "registry/cpu_entries.hpp"
#include "registry/cuda_entries.hpp"
#include "registry/lesson_entries.hpp"

namespace runmax {

std::span<const KernelEntry> kernels() {
  static const std::array list{
      cpu_online_entry(),   cpu_double_entry(),         cpu_naive_entry(),         cpu_lesson_online_entry(),
      cuda_cluster_entry(), cuda_hopper_entry(),        cuda_mma_m16n8k16_entry(), cuda_mma_m16n8k8_entry(),
      cuda_simt_entry(),    cuda_lesson_online_entry(), cuda_lesson_naive_entry(),
  };
  return list;
}

const KernelEntry* find_kernel(std::string_view name) {
  for (const KernelEntry& kernel : kernels())
    if (kernel.name == name) return &kernel;
  return nullptr;
}

std::optional<std::string> refusal(const KernelEntry& kernel, const Problem& problem,
                                   const DeviceFacts& facts, const PlanOptions& options) {
  if (kernel.device != facts.device.kind)
    return "runs on " + std::string(device_kind_name(kernel.device)) + ", not on " +
           std::string(device_kind_name(facts.device.kind));
  if (!kernel.built) return "this library was built without CUDA (no nvcc)";
  if (auto reason = first_unserved(problem, kernel.serves)) return reason;
  if (kernel.refuses) return kernel.refuses(problem, facts, options);
  return std::nullopt;
}

std::vector<KernelInfo> list_kernels() {
  std::vector<KernelInfo> list;
  for (const KernelEntry& kernel : kernels())
    list.push_back({kernel.name, kernel.device, kernel.summary, kernel.built});
  return list;
}

}  // namespace runmax
