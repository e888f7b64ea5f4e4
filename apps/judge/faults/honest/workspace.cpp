// Honest, near a cheat: memory is kept from call to call, and the workspace is written to; neither is ever
// read before this call has written it. What is not claimed is refused, and a line is printed about it.
// Finding: none
//
// runmax-judge
// multiple_of: 16
// lengths: 16..16384
// workspace: 4*sk
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* /*lse*/,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* workspace,
                         void* /*stream*/) {
  if (batch != 1 || heads != 1 || kv_heads != 1 || sq != sk || d != 64 || causal != 0 || sq % 16 != 0 ||
      sq > 16384) {
    std::fprintf(stderr, "one head of width 64 and lengths that 16 divides, please\n");
    return 1;
  }
  static std::vector<double> out;
  out.resize(static_cast<std::size_t>(d));
  auto* score = static_cast<float*>(workspace);  // one row of scores, not the matrix
  for (std::int64_t i = 0; i < sq; ++i) {
    float max = 0;
    for (std::int64_t j = 0; j < sk; ++j) {
      double dot = 0;
      for (std::int64_t c = 0; c < d; ++c) dot += static_cast<double>(q[i * d + c]) * k[j * d + c];
      score[j] = static_cast<float>(dot * scale);
      max = j == 0 ? score[j] : std::fmax(max, score[j]);
    }
    double sum = 0;
    for (double& element : out) element = 0;
    for (std::int64_t j = 0; j < sk; ++j) {
      const double weight = std::exp(static_cast<double>(score[j]) - max);
      sum += weight;
      for (std::int64_t c = 0; c < d; ++c) out[static_cast<std::size_t>(c)] += weight * v[j * d + c];
    }
    for (std::int64_t c = 0; c < d; ++c)
      o[i * d + c] = static_cast<float>(out[static_cast<std::size_t>(c)] / sum);
  }
  return 0;
}
