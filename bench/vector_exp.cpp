// SLEEF's and libmvec's exponentials in the instruction set that this file is compiled for.
#include "bench/vector_exp.hpp"

#include <immintrin.h>
#include <sleef.h>

#if defined(__AVX512F__)
using Vector = __m512;
constexpr std::size_t lanes = 16;
#define RUNMAX_LOAD _mm512_loadu_ps
#define RUNMAX_STORE _mm512_storeu_ps
#define RUNMAX_SLEEF(name, ulp) Sleef_##name##f16_##ulp##avx512f
#define RUNMAX_MVEC _ZGVeN16v_expf
#elif defined(__AVX2__)
using Vector = __m256;
constexpr std::size_t lanes = 8;
#define RUNMAX_LOAD _mm256_loadu_ps
#define RUNMAX_STORE _mm256_storeu_ps
#define RUNMAX_SLEEF(name, ulp) Sleef_##name##f8_##ulp##avx2
#define RUNMAX_MVEC _ZGVdN8v_expf
#else
using Vector = __m128;
constexpr std::size_t lanes = 4;
#define RUNMAX_LOAD _mm_loadu_ps
#define RUNMAX_STORE _mm_storeu_ps
#define RUNMAX_SLEEF(name, ulp) Sleef_##name##f4_##ulp##sse4
#define RUNMAX_MVEC _ZGVbN4v_expf
#endif

// A name of the x86-64 vector function ABI; libmvec has no header.
extern "C" Vector RUNMAX_MVEC(Vector);

namespace runmax::bench {
namespace {

template <auto function>
void apply(const float* x, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; i += lanes) RUNMAX_STORE(y + i, function(RUNMAX_LOAD(x + i)));
}

}  // namespace

const VectorExp& RUNMAX_VECTOR_EXP() {
  static const VectorExp functions{apply<RUNMAX_SLEEF(exp, u10)>, apply<RUNMAX_SLEEF(exp2, u10)>,
                                   apply<RUNMAX_SLEEF(exp2, u35)>, apply<RUNMAX_MVEC>};
  return functions;
}

}  // namespace runmax::bench
