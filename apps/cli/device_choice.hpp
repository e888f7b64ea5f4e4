// From the --device option to a device of this machine.
#pragma once

#include <string>

#include "runmax/runmax.hpp"

namespace runmax::cli {

struct DeviceChoice {
  DeviceFacts facts;
  std::string why;  // one line: which device and why this one
};

// "auto" takes the GPU if this build and this machine have one, else the CPU.
Result<DeviceChoice> choose_device(const std::string& name);

}  // namespace runmax::cli
