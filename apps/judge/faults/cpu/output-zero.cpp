// Fault: the answer is zero.
// Finding: output-zero
#include <cstdint>
#include <cstring>

extern "C" int attention(const float*, const float*, const float*, float* o, float*, std::int64_t batch,
                         std::int64_t heads, std::int64_t, std::int64_t sq, std::int64_t, std::int64_t d,
                         float, int, void*, void*) {
  std::memset(o, 0, static_cast<std::size_t>(batch * heads * sq * d) * sizeof(float));
  return 0;
}
