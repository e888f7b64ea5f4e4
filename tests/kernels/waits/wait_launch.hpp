// A thread that waits on a barrier, host side.
#pragma once

#include <string>

namespace runmax::kit {

// Waits for a phase to which one thread arrives, or none does. The error of CUDA; empty if there was none.
std::string wait_on_barrier(bool somebody_arrives);

}  // namespace runmax::kit
