// Fault: the answer is a constant.
// Finding: output-constant
#include <algorithm>
#include <cstdint>

extern "C" int attention(const float*, const float*, const float*, float* o, float*, std::int64_t batch,
                         std::int64_t heads, std::int64_t, std::int64_t sq, std::int64_t, std::int64_t d,
                         float, int, void*, void*) {
  std::fill(o, o + batch * heads * sq * d, 0.125f);
  return 0;
}
