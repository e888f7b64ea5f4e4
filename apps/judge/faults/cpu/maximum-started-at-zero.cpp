// Fault: the maximum starts at 0, too large for a row whose scores are far below.
// Finding: maximum-started-at-zero
#include "online.hpp"

struct MaximumStartedAtZero : Right {
  float starting_maximum() const { return 0; }
  float answer(float out, float sum) const { return out / sum; }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0},
                MaximumStartedAtZero());
}
