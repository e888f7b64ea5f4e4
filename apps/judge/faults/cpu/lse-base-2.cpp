// Fault: the LSE is a logarithm to base 2.
// Finding: lse-base-2
//
// runmax-judge
// lse: yes
#include "online.hpp"

struct LseBase2 : Right {
  float log_of_sum(float max, float sum) const { return Right::log_of_sum(max, sum) * 1.4426950f; }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, LseBase2());
}
