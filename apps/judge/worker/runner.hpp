// How a candidate is called, whatever its tier: the one place where its code is entered.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "judge/worker/protocol.hpp"

namespace runmax::judge {

// Arrays of one call as addresses; null where the call has none.
struct Arrays {
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  float *o = nullptr, *lse = nullptr;
  void* workspace = nullptr;
};

class Runner {
 public:
  virtual ~Runner() = default;
  // 0 if the answer is written, else what the candidate returned.
  virtual std::int32_t run(const Call& call, const Arrays& arrays) = 0;
};

// The host tier: `symbol` of a shared library. Null and a complaint if it cannot be loaded.
std::unique_ptr<Runner> make_host_runner(const char* library, const char* symbol, std::string& complaint);

}  // namespace runmax::judge
