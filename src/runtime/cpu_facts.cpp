#include "runtime/cpu_facts.hpp"

#include <hwy/targets.h>
#include <oneapi/tbb/info.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
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

// Memory that programs can have without pushing others out: page caches count as free. 0 if the system does
// not tell.
std::int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::int64_t kib = 0;
  for (std::string rest; file >> name >> kib; std::getline(file, rest))
    if (name == "MemAvailable:") return kib * 1024;
  return 0;
}

// What the control group of this process still allows; the most that fits in the type if nothing limits it.
std::int64_t group_bytes() {
  std::int64_t limit = 0, used = 0;
  std::ifstream max("/sys/fs/cgroup/memory.max"), current("/sys/fs/cgroup/memory.current");
  if (!(max >> limit) || !(current >> used)) return std::numeric_limits<std::int64_t>::max();
  return std::max<std::int64_t>(limit - used, 0);
}

}  // namespace

DeviceFacts cpu_facts() {
  DeviceFacts facts;
  facts.device = {DeviceKind::cpu, 0};
  facts.name = processor_name();
  facts.threads = tbb::info::default_concurrency();
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  facts.memory_bytes = page * sysconf(_SC_PHYS_PAGES);
  facts.free_bytes = available_bytes();
  if (facts.free_bytes == 0) facts.free_bytes = page * sysconf(_SC_AVPHYS_PAGES);
  facts.free_bytes = std::min(facts.free_bytes, group_bytes());
  // The best target is the lowest set bit.
  const auto targets = hwy::SupportedTargets();
  facts.simd = hwy::TargetName(targets & (~targets + 1));
  return facts;
}

}  // namespace runmax
