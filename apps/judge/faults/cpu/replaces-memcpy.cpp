// Fault: the library exports a memcpy and a clock of its own.
// Finding: exports-system-symbol
#include <cstddef>
#include <ctime>

#include "online.hpp"

extern "C" __attribute__((visibility("default"))) void* memcpy(void* to, const void* from, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i)
    static_cast<char*>(to)[i] = static_cast<const volatile char*>(from)[i];
  return to;
}

// Time stands still.
extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t, timespec* time) noexcept {
  *time = {};
  return 0;
}

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  const Call call{q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0};
  return attend(call, Right());
}
