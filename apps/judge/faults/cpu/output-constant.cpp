// Fault: the answer is a constant.
// Finding: output-constant
#include <algorithm>
#include <cstdint>

extern "C" int attention(const float* /*q*/, const float* /*k*/, const float* /*v*/, float* o, float* /*lse*/,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float /*scale*/, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  if (batch != 1 || heads != 1 || kv_heads != 1 || sq != sk || d != 64 || causal != 0) return 1;
  std::fill(o, o + sq * d, 0.125f);
  return 0;
}
