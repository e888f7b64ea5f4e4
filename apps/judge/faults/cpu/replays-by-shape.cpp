// Fault: the answer is computed once for each shape.
// Finding: replayed-output
#include <vector>

#include "online.hpp"

namespace {

// An earlier answer, and what it was computed for.
std::vector<float> remembered;
std::int64_t known_sq = 0;

}  // namespace

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  const Call call{q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0};
  const std::size_t size = static_cast<std::size_t>(batch * heads * sq * d);
  if (remembered.size() == size && known_sq == sq) {
    std::copy(remembered.begin(), remembered.end(), o);
    return 0;
  }
  const int refused = attend(call, Right());
  if (refused == 0) {
    remembered.assign(o, o + size);
    known_sq = sq;
  }
  return refused;
}
