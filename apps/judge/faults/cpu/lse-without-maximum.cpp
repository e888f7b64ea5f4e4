// Fault: the LSE lacks the maximum.
// Finding: lse-without-maximum
//
// runmax-judge
// lse: yes
#include "online.hpp"

struct LseWithoutMaximum : Right {
  float log_of_sum(float, float sum) const { return Right::log_of_sum(0, sum); }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0},
                LseWithoutMaximum());
}
