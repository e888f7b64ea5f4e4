// Fault: weights meet the V row of the key after theirs.
// Finding: values-shifted
#include "online.hpp"

struct ValuesShifted : Right {
  float value(const Call& call, const float* v, std::int64_t j, std::int64_t c) const {
    return v[std::min(j + 1, call.sk - 1) * call.d + c];
  }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, ValuesShifted());
}
