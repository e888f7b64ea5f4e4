// Fault: the scale is 1/d instead of 1/sqrt(d).
// Finding: scale-squared
#include "online.hpp"

struct ScaleSquared : Right {
  float scale(const Call& call) const { return call.scale * call.scale; }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, ScaleSquared());
}
