#include "runtime/cpu_facts.hpp"

#include <hwy/targets.h>
#include <oneapi/tbb/info.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace runmax {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0)
      if (const std::size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown CPU";
}

}  // namespace

DeviceFacts cpu_facts() {
  DeviceFacts facts;
  facts.device = {DeviceKind::cpu, 0};
  facts.name = processor_name();
  facts.threads = tbb::info::default_concurrency();
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  facts.memory_bytes = page * sysconf(_SC_PHYS_PAGES);
  facts.free_bytes = page * sysconf(_SC_AVPHYS_PAGES);
  // The best target is the lowest set bit.
  const auto targets = hwy::SupportedTargets();
  facts.simd = hwy::TargetName(targets & (~targets + 1));
  return facts;
}

}  // namespace runmax
