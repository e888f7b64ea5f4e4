// Fault: the third call, and only that one, has a wrong element.
// Finding: wrong-after-calls | wrong-when-timed | depends-on-old-memory
#include "online.hpp"

namespace {

int calls = 0;

}  // namespace

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  const Call call{q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0};
  const int refused = attend(call, Right());
  if (refused == 0 && ++calls == 3) o[sq / 2 * d + 7] += 1;
  return refused;
}
