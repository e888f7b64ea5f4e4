// Fault: every key that a row sees weighs the same.
// Finding: uniform-weights
//
// runmax-judge
// causal: yes
#include <algorithm>
#include <cstdint>

extern "C" int attention(const float* /*q*/, const float* /*k*/, const float* v, float* o, float* /*lse*/,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float /*scale*/, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  if (batch != 1 || heads != 1 || kv_heads != 1 || sq != sk || d != 64) return 1;
  std::fill(o, o + sq * d, 0.0f);
  for (std::int64_t i = 0; i < sq; ++i) {
    const std::int64_t seen = causal != 0 ? i + 1 : sk;
    for (std::int64_t j = 0; j < seen; ++j)
      for (std::int64_t c = 0; c < d; ++c) o[i * d + c] += v[j * d + c] / static_cast<float>(seen);
  }
  return 0;
}
