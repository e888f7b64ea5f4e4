// Fault: lengths that it does not claim are answered, without their last keys.
// Finding: served-outside-claim
//
// runmax-judge
// multiple_of: 32
#include "online.hpp"

namespace {

struct FullTilesOnly : Right {
  std::int64_t last(std::int64_t visible) const { return visible / key_tile * key_tile; }
};

}  // namespace

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  const Call call{q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0};
  return attend(call, FullTilesOnly());
}
