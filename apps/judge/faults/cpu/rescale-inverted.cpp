// Fault: the history is multiplied by exp(new - old) instead of exp(old - new).
// Finding: rescale-inverted
#include "online.hpp"

struct RescaleInverted : Right {
  // The empty history stays empty.
  float factor_of_sum(float rescale) const { return rescale > 0 ? 1 / rescale : 0; }
  float factor_of_output(float rescale) const { return factor_of_sum(rescale); }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, RescaleInverted());
}
