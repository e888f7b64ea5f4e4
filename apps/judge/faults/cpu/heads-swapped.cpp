// Fault: query head h reads KV head h modulo their number.
// Finding: heads-swapped
//
// runmax-judge
// heads: grouped
#include "online.hpp"

struct HeadsSwapped : Right {
  bool claims(const Call& call) const { return call.sq == call.sk && call.d == 64 && !call.causal; }
  std::int64_t kv_head(const Call& call, std::int64_t head) const { return head % call.kv_heads; }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, HeadsSwapped());
}
