// Fault: two neighbouring rows of the output are exchanged.
// Finding: rows-swapped
#include "online.hpp"

struct RowsSwapped : Right {
  std::int64_t place_of_row(const Call& call, std::int64_t i) const { return (i ^ 1) < call.sq ? i ^ 1 : i; }
};

extern "C" int attention(const float* q, const float* k, const float* v, float* o, float* lse,
                         std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t sq,
                         std::int64_t sk, std::int64_t d, float scale, int causal, void* /*workspace*/,
                         void* /*stream*/) {
  return attend({q, k, v, o, lse, batch, heads, kv_heads, sq, sk, d, scale, causal != 0}, RowsSwapped());
}
