// Fault: a tile is weighed against its own maximum instead of the running one.
// Finding: own-maximum
#include "online.hpp"

struct OwnMaximum : Right {
  float subtracted(float, float tile_max, float) const { return tile_max; }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, OwnMaximum());
}
