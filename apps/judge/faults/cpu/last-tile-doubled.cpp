// Fault: a last tile that is not full is moved back to be full, over keys that were taken already.
// Finding: last-tile-doubled
#include "online.hpp"

struct LastTileDoubled : Right {
  float times(std::int64_t key, std::int64_t visible) const {
    const std::int64_t full = visible / key_tile * key_tile;
    return visible > key_tile && key >= visible - key_tile && key < full && full != visible ? 2 : 1;
  }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, LastTileDoubled());
}
