// Fault: every row is the V of its best key.
// Finding: best-key-value
#include <algorithm>
#include <cstdint>

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* /*lse*/,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float /*scale*/, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  if (batch != 1 || heads != 1 || kv_heads != 1 || sq != sk || d != 64 || causal != 0) return 1;
  for (std::int64_t i = 0; i < sq; ++i) {
    std::int64_t best = 0;
    float best_dot = 0;
    for (std::int64_t j = 0; j < sk; ++j) {
      float dot = 0;
      for (std::int64_t c = 0; c < d; ++c) dot += q[i * d + c] * k[j * d + c];
      if (j > 0 && dot <= best_dot) continue;
      best = j;
      best_dot = dot;
    }
    std::copy(v + best * d, v + (best + 1) * d, o + i * d);
  }
  return 0;
}
