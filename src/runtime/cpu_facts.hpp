// Facts of this machine's CPU.
#pragma once

#include "runmax/runmax.hpp"

namespace runmax {

DeviceFacts cpu_facts();

}  // namespace runmax
