#include "judge/candidate/starter.hpp"

namespace runmax::judge {
namespace {

constexpr const char* host = R"(// Attention for one head, to be made fast: O = softmax(Q K^T * scale) V.
//
//   runmax judge THIS_FILE            builds it, checks it, times it against the naive path, and explains
//   runmax judge hint 1               if you are stuck; then hint 2
//
// What this file claims to serve. Inside of it every answer must be right; everything else is refused below.
//
// runmax-judge
// tier: host
// lengths: 1..131072      -- queries and keys
// head_dim: 64
// key_tile: 32            -- keys that are taken at once: the judge looks closely at the edges
// workspace: 0            -- bytes, for example 4*n*d

#include <cmath>
#include <cstdint>

extern "C" int attention(
    const float* q,     // queries, (sq, d), row after row; must not be written to
    const float* k,     // keys, (sk, d)
    const float* v,     // values, (sk, d)
    float* o,           // the answer, (sq, d): write every element
    float* lse,         // null, unless the manifest says "lse: yes"
    int64_t batch,      // 1, unless the manifest says "heads: any"
    int64_t heads,      // 1
    int64_t kv_heads,   // 1
    int64_t sq,         // number of queries
    int64_t sk,         // number of keys
    int64_t d,          // width of a row
    float scale,        // factor of q . k: 1/sqrt(d)
    int causal,         // 0, unless the manifest says "causal: yes"
    void* workspace,    // as many bytes as the manifest asks for; holds anything when you get it
    void* stream) {     // null on the CPU
  // Anything but 0 refuses. A problem outside of the claim must be refused, never answered wrong.
  if (batch != 1 || heads != 1 || kv_heads != 1 || sq != sk || d != 64 || causal) return 1;
  (void)lse, (void)workspace, (void)stream;

  for (int64_t i = 0; i < sq; ++i) {
    // Three sweeps over the keys: the largest score, the sum of exponentials, the weighted values. Each score
    // is computed three times, because a row of scores may not be stored.
    //
    // Your task: one sweep, 32 keys at a time. What must a row carry from tile to tile, and what happens to it
    // when a later tile holds a larger score?
    auto score = [&](int64_t j) {
      float dot = 0;
      for (int64_t c = 0; c < d; ++c) dot += q[i * d + c] * k[j * d + c];
      return dot * scale;
    };
    float max = -INFINITY;
    for (int64_t j = 0; j < sk; ++j) max = std::fmax(max, score(j));
    float sum = 0;
    for (int64_t j = 0; j < sk; ++j) sum += std::exp(score(j) - max);
    for (int64_t c = 0; c < d; ++c) o[i * d + c] = 0;
    for (int64_t j = 0; j < sk; ++j) {
      const float weight = std::exp(score(j) - max) / sum;
      for (int64_t c = 0; c < d; ++c) o[i * d + c] += weight * v[j * d + c];
    }
  }
  return 0;
}
)";

constexpr const char* device =
    R"(// Attention for one head of width 64, to be made fast: O = softmax(Q K^T / 8) V.
//
//   runmax judge THIS_FILE            builds it, checks it, times it against the naive path, and explains
//   runmax judge hint 1               if you are stuck; then hint 2
//
// What this file claims to serve, and how the judge launches it.
//
// runmax-judge
// tier: device
// lengths: 1..131072
// multiple_of: 1
// key_tile: 32
// blocks: (n + 63)/64     -- one block for 64 queries
// threads: 64
// shared_bytes: 0         -- dynamic shared memory of a block
// workspace: 0            -- bytes; if not 0, attention has one more argument, float* workspace

constexpr int width = 64;

extern "C" __global__ void attention(
    const float* q,   // queries, (n, 64), row after row, in device memory; must not be written to
    const float* k,   // keys, (n, 64)
    const float* v,   // values, (n, 64)
    float* o,         // the answer, (n, 64): write every element
    int n) {          // queries, and keys
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;

  // Three sweeps over the keys: the largest score, the sum of exponentials, the weighted values. Each score is
  // computed three times, because a row of scores may not be stored.
  //
  // Your task: one sweep, 32 keys at a time. What must a row carry from tile to tile, and what happens to it when
  // a later tile holds a larger score?
  auto score = [&](int j) {
    float dot = 0;
    for (int c = 0; c < width; ++c) dot += q[(long long)i * width + c] * k[(long long)j * width + c];
    return dot * 0.125f;
  };
  float max = -INFINITY;
  for (int j = 0; j < n; ++j) max = fmaxf(max, score(j));
  float sum = 0;
  for (int j = 0; j < n; ++j) sum += expf(score(j) - max);
  float out[width] = {};
  for (int j = 0; j < n; ++j) {
    const float weight = expf(score(j) - max) / sum;
    for (int c = 0; c < width; ++c) out[c] += weight * v[(long long)j * width + c];
  }
  for (int c = 0; c < width; ++c) o[(long long)i * width + c] = out[c];
}
)";

}  // namespace

std::string starter(Tier tier) { return tier == Tier::host ? host : device; }

}  // namespace runmax::judge
