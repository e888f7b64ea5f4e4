// Fault: no maximum is subtracted: exp overflows above 88 and vanishes below -104.
// Finding: no-maximum
#include "online.hpp"

struct NoMaximum : Right {
  float starting_maximum() const { return 0; }
  float raised(float, float) const { return 0; }
  float answer(float out, float sum) const { return out / sum; }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, NoMaximum());
}
