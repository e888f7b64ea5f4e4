// Registry entries of the lesson's kernels. The leaf itself is C++17 and knows no runmax types.
#pragma once

#include "registry/registry.hpp"

namespace runmax {

// The lesson's online order in plain C++.
KernelEntry cpu_lesson_online_entry();

}  // namespace runmax
