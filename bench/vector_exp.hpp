// Exponentials of other libraries over arrays, one instruction set a translation unit.
#pragma once

#include <cstddef>

namespace runmax::bench {

// y[i] = f(x[i]); count is a multiple of 64.
using ArrayFunction = void (*)(const float* x, float* y, std::size_t count);

struct VectorExp {
  ArrayFunction sleef_exp;       // SLEEF, 1.0 ulp
  ArrayFunction sleef_exp2;      // SLEEF, 1.0 ulp
  ArrayFunction sleef_exp2_u35;  // SLEEF, 3.5 ulp
  ArrayFunction mvec_exp;        // glibc's libmvec, 4 ulp
};

const VectorExp& vector_exp_sse4();
const VectorExp& vector_exp_avx2();
const VectorExp& vector_exp_avx512();

}  // namespace runmax::bench
