// Stands in for device_runner.cpp in a build without CUDA.
#include "judge/worker/runner.hpp"

namespace runmax::judge {

std::unique_ptr<Runner> make_device_runner(const Setup&) { return nullptr; }

}  // namespace runmax::judge
