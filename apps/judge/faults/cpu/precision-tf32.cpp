// Fault: the operands of both products are rounded to TF32.
// Finding: precision-tf32
#include <cstring>

#include <cstring>

#include "online.hpp"

struct PrecisionTf32 : Right {
  // 11 bits; the hardware cuts the other 13 off.
  float operand(float value) const {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits &= 0xffffe000u;
    std::memcpy(&value, &bits, sizeof bits);
    return value;
  }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, PrecisionTf32());
}
