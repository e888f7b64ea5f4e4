// How a candidate is called, whatever its tier: the one place where its code is entered.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "judge/worker/protocol.hpp"

namespace runmax::judge {

// One buffer's pages in the worker, between two pages that cannot be touched.
struct Mapped {
  char* begin = nullptr;
  std::int64_t bytes = 0;
};
using Arrays = std::vector<Mapped>;

// Null if the place is none.
inline void* address_of(const Arrays& arrays, const Place& place) {
  if (place.region < 0 || place.region >= static_cast<std::int32_t>(arrays.size())) return nullptr;
  return arrays[static_cast<std::size_t>(place.region)].begin + place.byte;
}

// What came of a batch of calls.
struct Ran {
  std::int32_t returned = 0;  // 0 if every answer is written, else what the candidate returned
  std::int32_t calls = 0;
  std::int64_t memory_bytes = -1;
  std::string device_error;
};

// Complaints are "" if there are none.
class Runner {
 public:
  virtual ~Runner() = default;
  // Before the process is confined and the candidate is loaded. The arrays outlive the runner.
  virtual std::string take(const Arrays& arrays) = 0;
  virtual std::string load(Resources& resources) = 0;
  virtual Ran run(std::span<const Call> calls) = 0;
};

// The function `attention` as both tiers of libraries have it.
using Function = int (*)(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* workspace,
                         void* stream);
// Null and a complaint if it cannot be loaded.
Function load_function(const char* library, const char* symbol, std::string& complaint);

std::unique_ptr<Runner> make_host_runner(const Setup& setup);
// Null in a build without CUDA.
std::unique_ptr<Runner> make_device_runner(const Setup& setup);

}  // namespace runmax::judge
