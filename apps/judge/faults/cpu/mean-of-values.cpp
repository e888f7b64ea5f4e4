// Fault: every row is the mean of V, whatever the scores.
// Finding: mean-of-values
#include <cstdint>
#include <vector>

extern "C" int attention(const float* /*q*/, const float* /*k*/, const float* v, float* o, float* /*lse*/,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float /*scale*/, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  if (batch != 1 || heads != 1 || kv_heads != 1 || sq != sk || d != 64 || causal != 0) return 1;
  std::vector<float> mean(static_cast<std::size_t>(d), 0.0f);
  for (std::int64_t j = 0; j < sk; ++j)
    for (std::int64_t c = 0; c < d; ++c) mean[static_cast<std::size_t>(c)] += v[j * d + c];
  for (std::int64_t i = 0; i < sq; ++i)
    for (std::int64_t c = 0; c < d; ++c)
      o[i * d + c] = mean[static_cast<std::size_t>(c)] / static_cast<float>(sk);
  return 0;
}
