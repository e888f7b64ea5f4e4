// What the lesson's kernels occupy, as the runtime reports it, beside what arithmetic predicts (C++17, pure).
#pragma once

#include <vector>

#include "../src/kernels/lesson/launch.hpp"
#include "occupancy.hpp"
#include "predictions.hpp"

namespace runmax {
namespace lesson {

inline std::vector<ResourceFigures> resource_figures(const KernelResources (&kernels)[kernel_count],
                                                     const MultiprocessorLimits& limits) {
  std::vector<ResourceFigures> figures;
  for (const KernelResources& kernel : kernels) {
    const Occupancy predicted =
        predict_occupancy(limits, {kernel.threads, kernel.registers, kernel.planned_shared_bytes});
    ResourceFigures figure;
    figure.kernel = kernel.name;
    figure.is_online = kernel.is_online;
    figure.shared_bytes = kernel.shared_bytes;
    figure.expected_shared_bytes = kernel.planned_shared_bytes;
    figure.registers = kernel.registers;
    figure.blocks = kernel.blocks_per_multiprocessor;
    figure.expected_blocks = predicted.blocks;
    figure.occupancy = kernel.occupancy;
    figure.expected_occupancy = predicted.fraction;
    figure.threads = kernel.threads;
    figure.local_bytes = kernel.local_bytes;
    figure.limited_by = predicted.limited_by;
    figures.push_back(figure);
  }
  return figures;
}

}  // namespace lesson
}  // namespace runmax
