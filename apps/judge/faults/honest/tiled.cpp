// Honest: another tiling, 4 queries against 96 keys at once, in base 2, for any width.
// Finding: none
//
// runmax-judge
// head_dim: 64,32,80,128
// unequal: yes
// key_tile: 96
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* /*lse*/,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  constexpr std::int64_t query_tile = 4, key_tile = 96;
  const bool width = d == 64 || d == 32 || d == 80 || d == 128;
  if (batch != 1 || heads != 1 || kv_heads != 1 || !width || causal != 0) return 1;

  const float scale_log2 = scale * 1.44269504f;
  std::vector<float> out(static_cast<std::size_t>(query_tile * d)), weight(query_tile * key_tile);
  for (std::int64_t first = 0; first < sq; first += query_tile) {
    const std::int64_t rows = std::min(query_tile, sq - first);
    float max[query_tile], sum[query_tile] = {};
    std::fill(max, max + query_tile, -std::numeric_limits<float>::infinity());
    std::fill(out.begin(), out.end(), 0.0f);
    for (std::int64_t tile = 0; tile < sk; tile += key_tile) {
      const std::int64_t count = std::min(key_tile, sk - tile);
      for (std::int64_t r = 0; r < rows; ++r) {
        float* w = weight.data() + r * key_tile;
        float new_max = max[r];
        for (std::int64_t j = 0; j < count; ++j) {
          // Four partial sums.
          float dot[4] = {};
          for (std::int64_t c = 0; c < d; ++c) dot[c % 4] += q[(first + r) * d + c] * k[(tile + j) * d + c];
          w[j] = (dot[0] + dot[1] + dot[2] + dot[3]) * scale_log2;
          new_max = std::max(new_max, w[j]);
        }
        const float rescale = std::exp2(max[r] - new_max);
        max[r] = new_max;
        sum[r] *= rescale;
        for (std::int64_t c = 0; c < d; ++c) out[static_cast<std::size_t>(r * d + c)] *= rescale;
        for (std::int64_t j = 0; j < count; ++j) {
          w[j] = std::exp2(w[j] - new_max);
          sum[r] += w[j];
        }
      }
      for (std::int64_t j = 0; j < count; ++j)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < d; ++c)
            out[static_cast<std::size_t>(r * d + c)] +=
                weight[static_cast<std::size_t>(r * key_tile + j)] * v[(tile + j) * d + c];
    }
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < d; ++c)
        o[(first + r) * d + c] = out[static_cast<std::size_t>(r * d + c)] / sum[r];
  }
  return 0;
}
