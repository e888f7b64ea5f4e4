// What the lesson's CUDA kernels occupy, as the runtime reports it, beside what arithmetic predicts.
#pragma once

#include <vector>

#include "lab/report.hpp"

namespace runmax::lab {

// no_device in a build without CUDA.
Result<std::vector<lesson::ResourceFigures>> kernel_resources(const DeviceFacts& facts);

}  // namespace runmax::lab
