// Fault: more text is printed than anybody reads: 256 MiB.
// Finding: output-flood
#include <cstdio>
#include <string>

#include "online.hpp"

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  const Call call{q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0};
  const std::string line(1 << 16, 'x');
  for (int block = 0; block < 4096; ++block) std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
  return attend(call, Right());
}
