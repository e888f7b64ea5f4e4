// Fault: keys beyond the last one are given the score 0, not -inf, and enter the sum.
// Finding: padding-counted
#include "online.hpp"

struct PaddingCounted : Right {
  std::int64_t last(std::int64_t visible) const { return (visible + key_tile - 1) / key_tile * key_tile; }
  float key(const Call& call, const float* k, std::int64_t j, std::int64_t c) const {
    return j < call.sk ? k[j * call.d + c] : 0;
  }
  float value(const Call& call, const float* v, std::int64_t j, std::int64_t c) const {
    return j < call.sk ? v[j * call.d + c] : 0;
  }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, PaddingCounted());
}
