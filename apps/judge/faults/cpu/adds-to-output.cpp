// Fault: the answer is added to what the output held, as if that were zero.
// Finding: depends-on-old-memory | output-unwritten
#include <vector>

#include "online.hpp"

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  const Call call{q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0};
  const std::vector<float> before(o, o + batch * heads * sq * d);
  const int refused = attend(call, Right());
  for (std::size_t e = 0; refused == 0 && e < before.size(); ++e) o[e] += before[e];
  return refused;
}
