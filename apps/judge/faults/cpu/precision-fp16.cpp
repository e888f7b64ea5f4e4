// Fault: the operands of both products are rounded to fp16.
// Finding: precision-fp16
#include <cstring>

#include "online.hpp"

struct PrecisionFp16 : Right {
  // 11 bits, down to multiples of 2^-24: a number so large that its last bit is their unit is added and taken
  // away. Infinity, from 65520 on, is left out.
  float operand(float value) const {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits &= 0x7f800000u;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    const float large = std::max(std::min(power, 0x1p100f) * 0x1p-10f, 0x1p-24f) * 0x1.8p23f;
    return (value + large) - large;
  }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, PrecisionFp16());
}
