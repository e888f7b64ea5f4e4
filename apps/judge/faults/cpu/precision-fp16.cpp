// Fault: the operands of both products are rounded to fp16.
// Finding: precision-fp16
#include <cstring>

#include <cstring>

#include "online.hpp"

struct PrecisionFp16 : Right {
  // 11 bits, ties to even, down to multiples of 2^-24.
  float operand(float value) const {
    if (std::abs(value) < 0x1p-14f) return (value + 0x1.8p-1f) - 0x1.8p-1f;
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x0fffu + ((bits >> 13) & 1u)) & 0xffffe000u;
    std::memcpy(&value, &bits, sizeof bits);
    return value;
  }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, PrecisionFp16());
}
