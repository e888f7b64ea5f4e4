// Registry entries of the CPU forward kernels.
#pragma once

#include "registry/registry.hpp"

namespace runmax {

KernelEntry cpu_online_entry();
KernelEntry cpu_double_entry();
KernelEntry cpu_naive_entry();

}  // namespace runmax
