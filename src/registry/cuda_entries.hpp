// Registry entries of runmax's own CUDA kernels.
#pragma once

#include "registry/registry.hpp"

namespace runmax {

// Short heads in one launch (sm_90).
KernelEntry cuda_cluster_entry();

// FP32-grade on Hopper's tensor cores (sm_90a).
KernelEntry cuda_hopper_entry();

// FP32 by FMA, any shape: plain, right, always there.
KernelEntry cuda_mma_m16n8k16_entry();
KernelEntry cuda_mma_m16n8k8_entry();
KernelEntry cuda_simt_entry();

}  // namespace runmax
