// Fault: the operands of both products are rounded to fp16.
// Finding: precision-fp16
#include "online.hpp"

struct PrecisionFp16 : Right {
  // 11 bits, down to multiples of 2^-24.
  float operand(float value) const {
    const float unit = std::ldexp(1.0f, std::max(std::ilogb(value) - 10, -24));
    return value == 0 ? 0 : std::nearbyint(value / unit) * unit;
  }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, PrecisionFp16());
}
