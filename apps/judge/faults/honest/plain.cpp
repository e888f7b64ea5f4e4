// Honest: slow and plain, three sweeps over the keys of each row; no manifest.
// Finding: none
#include <cmath>
#include <cstdint>

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* /*lse*/,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  if (batch != 1 || heads != 1 || kv_heads != 1 || sq != sk || d != 64 || causal != 0) return 1;
  for (std::int64_t i = 0; i < sq; ++i) {
    const auto score = [&](std::int64_t j) {
      float dot = 0;
      for (std::int64_t c = 0; c < d; ++c) dot += q[i * d + c] * k[j * d + c];
      return dot * scale;
    };
    float max = score(0), sum = 0;
    for (std::int64_t j = 1; j < sk; ++j) max = std::fmax(max, score(j));
    for (std::int64_t j = 0; j < sk; ++j) sum += std::exp(score(j) - max);
    for (std::int64_t c = 0; c < d; ++c) o[i * d + c] = 0;
    for (std::int64_t j = 0; j < sk; ++j) {
      const float weight = std::exp(score(j) - max) / sum;
      for (std::int64_t c = 0; c < d; ++c) o[i * d + c] += weight * v[j * d + c];
    }
  }
  return 0;
}
