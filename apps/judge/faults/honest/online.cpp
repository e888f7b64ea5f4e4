// Honest: the exercise's online kernel as the lesson writes it, with every option of the host tier.
// Finding: none
//
// runmax-judge
// heads: grouped
// unequal: yes
// causal: yes
// lse: yes
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  constexpr std::int64_t width = 64, key_tile = 32;
  if (d != width || kv_heads < 1 || heads % kv_heads != 0) return 1;

  for (std::int64_t row = 0; row < batch * heads * sq; ++row) {
    const std::int64_t i = row % sq, head = row / sq;
    const std::int64_t kv_head = head / heads * kv_heads + head % heads / (heads / kv_heads);
    const float* q_row = q + row * width;
    const float* k_head = k + kv_head * sk * width;
    const float* v_head = v + kv_head * sk * width;
    const std::int64_t keys = causal != 0 ? std::clamp(i + sk - sq + 1, std::int64_t{0}, sk) : sk;

    float max = -std::numeric_limits<float>::infinity(), sum = 0;
    float out[width] = {};
    for (std::int64_t tile = 0; tile < keys; tile += key_tile) {
      const std::int64_t count = std::min(key_tile, keys - tile);
      float weight[key_tile];
      float new_max = max;
      for (std::int64_t j = 0; j < count; ++j) {
        float dot = 0;
        for (std::int64_t c = 0; c < width; ++c) dot += q_row[c] * k_head[(tile + j) * width + c];
        weight[j] = dot * scale;
        new_max = std::max(new_max, weight[j]);
      }
      // exp(-inf) is 0: the first tile needs no case of its own.
      const float rescale = std::exp(max - new_max);
      max = new_max;
      sum *= rescale;
      for (float& element : out) element *= rescale;
      for (std::int64_t j = 0; j < count; ++j) {
        weight[j] = std::exp(weight[j] - max);
        sum += weight[j];
        for (std::int64_t c = 0; c < width; ++c) out[c] += weight[j] * v_head[(tile + j) * width + c];
      }
    }
    for (std::int64_t c = 0; c < width; ++c) o[row * width + c] = keys > 0 ? out[c] / sum : 0;
    if (lse) lse[row] = keys > 0 ? max + std::log(sum) : -std::numeric_limits<float>::infinity();
  }
  return 0;
}
