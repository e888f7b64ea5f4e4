// Registry entries of the lesson's kernels. The leaf itself is C++17 and knows no runmax types.
#pragma once

#include "registry/registry.hpp"

namespace runmax {

// The lesson's online order in plain C++.
KernelEntry cpu_lesson_online_entry();

// The lesson's two CUDA paths, for lab and tests: square, d = 64, packed rows, lengths of whole tiles.
KernelEntry cuda_lesson_online_entry();
KernelEntry cuda_lesson_naive_entry();

}  // namespace runmax
