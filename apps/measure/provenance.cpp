#include "measure/provenance.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string_view>

#include "measure/build_info.hpp"

namespace runmax::measure {
namespace {

// Kernels and their leaf folders share a word: cuda_hopper lies in src/kernels/forward/hopper,
// cpu_lesson_online in src/kernels/lesson. The last such word of the name decides; cpu_backward lies in
// src/kernels/backward/cpu.
const SourceHash* source_of(std::string kernel) {
  const auto is_backward = [](std::string_view name) {
    return name.find("backward") != std::string_view::npos;
  };
  const bool backward = is_backward(kernel);
  while (!kernel.empty()) {
    const std::size_t underscore = kernel.rfind('_');
    const std::string word = underscore == std::string::npos ? kernel : kernel.substr(underscore + 1);
    for (const SourceHash& hash : source_hashes)
      if (std::string_view(hash.folder).ends_with("/" + word) && is_backward(hash.folder) == backward)
        return &hash;
    kernel.resize(underscore == std::string::npos ? 0 : underscore);
  }
  return nullptr;
}

}  // namespace

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string commit() { return build_commit; }

std::string compiler() { return build_compiler; }

std::vector<KernelSources> sources_of(const std::vector<std::string>& kernels) {
  std::vector<KernelSources> sources;
  for (const std::string& kernel : kernels) {
    const SourceHash* hash = source_of(kernel);
    const auto same = [&](const KernelSources& s) { return s.folder == hash->folder; };
    if (hash && std::none_of(sources.begin(), sources.end(), same))
      sources.push_back({hash->folder, hash->sha256});
  }
  return sources;
}

}  // namespace runmax::measure
