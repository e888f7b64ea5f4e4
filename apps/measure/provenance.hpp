// Where a record comes from: when, of which commit, by which compiler, of which kernel sources.
#pragma once

#include <string>
#include <vector>

namespace runmax::measure {

// The present time in UTC, "2026-01-02T03:04:05Z".
std::string now_utc();

// Of this build: twelve digits, "-modified" behind them if files differ from it, or "unknown".
std::string commit();

// "GNU 12.2.0", with nvcc's version if there is one.
std::string compiler();

// SHA-256 over the sources of a kernel folder that was measured.
struct KernelSources {
  std::string folder;
  std::string sha256;
};

// The folders of the named kernels, each once, in the order of the names.
std::vector<KernelSources> sources_of(const std::vector<std::string>& kernels);

}  // namespace runmax::measure
