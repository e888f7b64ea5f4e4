// Fault: the last tile is read in full, beyond the end of K.
// Finding: out-of-bounds
#include "online.hpp"

namespace {

struct FullTiles : Right {
  std::int64_t last(std::int64_t visible) const { return (visible + key_tile - 1) / key_tile * key_tile; }
  // The value is not used; that it is read may be noticed.
  float key(const Call& call, const float* k, std::int64_t j, std::int64_t c) const {
    const volatile float read = k[j * call.d + c];
    return j < call.sk ? read : 0;
  }
  float value(const Call& call, const float* v, std::int64_t j, std::int64_t c) const {
    return j < call.sk ? v[j * call.d + c] : 0;
  }
  float times(std::int64_t key, std::int64_t visible) const { return key < visible ? 1 : 0; }
};

}  // namespace

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  const Call call{q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0};
  return attend(call, FullTiles());
}
