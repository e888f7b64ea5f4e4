#include "cli/device_choice.hpp"

#include <charconv>
#include <system_error>

namespace runmax::cli {

Result<DeviceChoice> choose_device(const std::string& name) {
  if (name == "auto") {
    Result<DeviceFacts> gpu = device_facts({DeviceKind::cuda, 0});
    if (gpu.ok())
      return DeviceChoice{gpu.value(),
                          "the GPU " + gpu.value().name + ": found, and this build has CUDA kernels"};
    Result<DeviceFacts> cpu = device_facts({DeviceKind::cpu, 0});
    if (!cpu.ok()) return cpu.status();
    return DeviceChoice{cpu.value(), "the CPU: " + gpu.status().message()};
  }
  if (name == "cpu") {
    Result<DeviceFacts> cpu = device_facts({DeviceKind::cpu, 0});
    if (!cpu.ok()) return cpu.status();
    return DeviceChoice{cpu.value(), "the CPU: asked for"};
  }
  Device device{DeviceKind::cuda, 0};
  if (name != "cuda") {
    const std::string prefix = "cuda:";
    const char* const end = name.data() + name.size();
    // A number too large for the index leaves it 0, which is a device.
    const auto is_index = [&](const char* begin) {
      const auto [stop, error] = std::from_chars(begin, end, device.index);
      return error == std::errc() && stop == end && device.index >= 0;
    };
    if (name.rfind(prefix, 0) != 0 || !is_index(name.data() + prefix.size()))
      return Status(StatusCode::invalid_argument,
                    "--device: is auto, cpu, cuda or cuda:N, got '" + name + "'");
  }
  Result<DeviceFacts> gpu = device_facts(device);
  if (!gpu.ok()) return gpu.status();
  return DeviceChoice{gpu.value(), "the GPU " + gpu.value().name + ": asked for"};
}

}  // namespace runmax::cli
