// Fault: a row sees the tile on the diagonal entirely.
// Finding: causal-whole-tiles
//
// runmax-judge
// causal: yes
#include "online.hpp"

struct CausalWholeTiles : Right {
  bool claims(const Call& call) const {
    return call.batch == 1 && call.heads == 1 && call.kv_heads == 1 && call.sq == call.sk && call.d == 64;
  }
  std::int64_t visible(const Call& call, std::int64_t i) const {
    const std::int64_t right = Right::visible(call, i);
    return std::min((right + key_tile - 1) / key_tile * key_tile, call.sk);
  }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, CausalWholeTiles());
}
