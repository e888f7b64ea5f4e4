// Fault: the operands of both products are rounded to bf16.
// Finding: precision-bf16
#include "online.hpp"

struct PrecisionBf16 : Right {
  // 8 bits.
  float operand(float value) const {
    const float unit = std::ldexp(1.0f, std::max(std::ilogb(value) - 7, -133));
    return value == 0 ? 0 : std::nearbyint(value / unit) * unit;
  }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, PrecisionBf16());
}
