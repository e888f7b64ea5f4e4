// Fault: a key that the causal mask hides gets the score 0 instead of -inf.
// Finding: masked-as-zero
//
// runmax-judge
// causal: yes
#include "online.hpp"

struct MaskedAsZero : Right {
  bool claims(const Call& call) const {
    return call.batch == 1 && call.heads == 1 && call.kv_heads == 1 && call.sq == call.sk && call.d == 64;
  }
  // Hidden keys are visited too; their scores are no part of any product.
  std::int64_t visible(const Call& call, std::int64_t i) const {
    hidden_from = Right::visible(call, i);
    return call.sk;
  }
  float key(const Call& call, const float* k, std::int64_t j, std::int64_t c) const {
    return j < hidden_from ? k[j * call.d + c] : 0;
  }
  mutable std::int64_t hidden_from = 0;
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, MaskedAsZero());
}
