// Registry entries of runmax's own CUDA kernels.
#pragma once

#include "registry/registry.hpp"

namespace runmax {

// FP32 by FMA, any shape: plain, right, always there.
KernelEntry cuda_simt_entry();

}  // namespace runmax
