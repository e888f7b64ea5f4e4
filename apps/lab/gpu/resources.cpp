#include "lab/gpu/resources.hpp"

#include "lesson/resources.hpp"

namespace runmax::lab {

Result<std::vector<lesson::ResourceFigures>> kernel_resources(const DeviceFacts& facts) {
  lesson::MultiprocessorLimits limits;
  limits.compute_capability = facts.compute_capability;
  limits.max_threads = facts.max_threads_per_multiprocessor;
  limits.max_blocks = facts.max_blocks_per_multiprocessor;
  limits.registers = facts.registers_per_multiprocessor;
  limits.shared_bytes = static_cast<int>(facts.shared_bytes_per_multiprocessor);
  limits.reserved_shared_bytes_per_block = static_cast<int>(facts.reserved_shared_bytes_per_block);
  limits.shared_unit_bytes = lesson::shared_unit_bytes(facts.compute_capability);

  lesson::KernelResources measured[lesson::kernel_count];
  if (const int error = lesson::read_resources(measured); error != 0)
    return Status(StatusCode::device_error,
                  std::string("cuda: reading kernel attributes: ") + lesson::error_text(error));
  return lesson::resource_figures(measured, limits);
}

}  // namespace runmax::lab
