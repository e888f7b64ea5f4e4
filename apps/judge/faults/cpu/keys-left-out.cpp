// Fault: the second of every three groups of 16 keys is left out.
// Finding: keys-left-out
#include "online.hpp"

struct KeysLeftOut : Right {
  float times(std::int64_t key, std::int64_t) const { return key / 16 % 3 == 1 ? 0 : 1; }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, KeysLeftOut());
}
