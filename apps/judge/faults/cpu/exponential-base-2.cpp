// Fault: exp2 takes the place of exp, the scores are not multiplied by log2(e).
// Finding: exponential-base-2
#include "online.hpp"

struct ExponentialBase2 : Right {
  float weight(float score, float max) const { return std::exp2(score - max); }
  // The factor that belongs to exp2.
  float factor_of_sum(float rescale) const { return std::exp2(std::log(rescale)); }
  float factor_of_output(float rescale) const { return factor_of_sum(rescale); }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, ExponentialBase2());
}
