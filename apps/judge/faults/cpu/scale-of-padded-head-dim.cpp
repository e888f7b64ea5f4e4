// Fault: the scale is that of the head size rounded up to a power of two.
// Finding: scale-of-padded-head-dim
//
// runmax-judge
// head_dim: 64,40,80
#include "online.hpp"

struct ScaleOfPaddedHeadDim : Right {
  bool claims(const Call& call) const {
    return call.batch == 1 && call.heads == 1 && call.kv_heads == 1 && call.sq == call.sk &&
           (call.d == 64 || call.d == 40 || call.d == 80) && !call.causal;
  }
  float scale(const Call& call) const {
    std::int64_t padded = 1;
    while (padded < call.d) padded *= 2;
    return call.scale * std::sqrt(static_cast<float>(call.d) / static_cast<float>(padded));
  }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0},
                ScaleOfPaddedHeadDim());
}
