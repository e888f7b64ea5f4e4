// Fault: the causal mask hides the diagonal.
// Finding: causal-off-by-one
//
// runmax-judge
// unequal: yes
// causal: yes
#include "online.hpp"

struct CausalOffByOne : Right {
  bool claims(const Call& call) const {
    return call.batch == 1 && call.heads == 1 && call.kv_heads == 1 && call.d == 64;
  }
  std::int64_t visible(const Call& call, std::int64_t i) const {
    return call.causal ? std::clamp(i + call.sk - call.sq, std::int64_t{0}, call.sk) : call.sk;
  }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, CausalOffByOne());
}
