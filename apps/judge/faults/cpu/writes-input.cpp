// Fault: Q is scaled in place, in memory that may only be read.
// Finding: input-written
#include "online.hpp"

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  const Call call{q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0};
  if (!Right().claims(call)) return 1;
  float* scaled = const_cast<float*>(q);
  for (std::int64_t e = 0; e < sq * d; ++e) scaled[e] *= scale;
  Call of_scaled = call;
  of_scaled.scale = 1;
  return attend(of_scaled, Right());
}
