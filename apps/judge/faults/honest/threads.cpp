// Honest, near a cheat: threads do the work, but all of them have ended when the call returns.
// Finding: none
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

namespace {

constexpr std::int64_t width = 64;

void rows(const float* q, const float* k, const float* v, float* o, std::int64_t first, std::int64_t last,
          std::int64_t sk, float scale) {
  for (std::int64_t i = first; i < last; ++i) {
    float max = -std::numeric_limits<float>::infinity(), sum = 0, out[width] = {};
    for (std::int64_t j = 0; j < sk; ++j) {
      float dot = 0;
      for (std::int64_t c = 0; c < width; ++c) dot += q[i * width + c] * k[j * width + c];
      const float score = dot * scale;
      if (score > max) {
        const float rescale = std::exp(max - score);
        max = score;
        sum *= rescale;
        for (float& element : out) element *= rescale;
      }
      const float weight = std::exp(score - max);
      sum += weight;
      for (std::int64_t c = 0; c < width; ++c) out[c] += weight * v[j * width + c];
    }
    for (std::int64_t c = 0; c < width; ++c) o[i * width + c] = out[c] / sum;
  }
}

}  // namespace

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* /*lse*/,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  if (batch != 1 || heads != 1 || kv_heads != 1 || sq != sk || d != width || causal != 0) return 1;
  const std::int64_t half = sq / 2;
  std::thread helper([=] { rows(q, k, v, o, 0, half, sk, scale); });
  rows(q, k, v, o, half, sq, sk, scale);
  helper.join();
  return 0;
}
