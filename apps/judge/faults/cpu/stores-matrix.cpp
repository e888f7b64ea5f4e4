// Fault: the scores of all queries and keys are stored.
// Finding: matrix-stored
#include <vector>

#include "online.hpp"

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  const Call call{q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0};
  if (!Right().claims(call)) return 1;
  std::vector<float> scores(static_cast<std::size_t>(sq * sk));
  for (std::int64_t i = 0; i < sq; ++i) {
    float* row = scores.data() + i * sk;
    float max = minus_infinity, sum = 0;
    for (std::int64_t j = 0; j < sk; ++j) {
      row[j] = 0;
      for (std::int64_t c = 0; c < d; ++c) row[j] += q[i * d + c] * k[j * d + c];
      row[j] *= scale;
      max = std::max(max, row[j]);
    }
    std::fill(o + i * d, o + (i + 1) * d, 0.0f);
    for (std::int64_t j = 0; j < sk; ++j) {
      row[j] = std::exp(row[j] - max);
      sum += row[j];
    }
    for (std::int64_t j = 0; j < sk; ++j)
      for (std::int64_t c = 0; c < d; ++c) o[i * d + c] += row[j] / sum * v[j * d + c];
  }
  return 0;
}
