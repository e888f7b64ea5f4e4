// Fault: a lane writes its dimensions side by side that it read 32 apart.
// Finding: dimensions-swapped
#include "online.hpp"

struct DimensionsSwapped : Right {
  std::int64_t place_of_dimension(const Call& call, std::int64_t c) const {
    return c % 32 * (call.d / 32) + c / 32;
  }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0},
                DimensionsSwapped());
}
