// exp and log in __float128, so that the reference is checked against arithmetic of twice its precision.
#pragma once

#include <cmath>
#include <cstdint>

namespace runmax::testing_quad {

__extension__ typedef __float128 Quad;

// ln 2 as three doubles, to 2^-160.
inline Quad ln2() {
  return static_cast<Quad>(0x1.62e42fefa39efp-1) + static_cast<Quad>(0x1.abc9e3b39803fp-56) +
         static_cast<Quad>(0x1.7b57a079a1934p-111);
}

// exp(x) for finite x <= 0 or moderate x: 2^n * (exp(r / 1024))^1024 with a Taylor series. Relative error
// about 1e-31.
inline Quad exp(Quad x) {
  if (x < -16000) return 0;
  const double n = std::nearbyint(static_cast<double>(x) / 0.6931471805599453);
  const Quad r = (x - static_cast<Quad>(n) * ln2()) / 1024;
  Quad term = 1, sum = 0;
  for (int k = 1; k <= 14; ++k) {
    term *= r / k;
    sum += term;
  }
  // (1 + sum)^2 - 1 = 2 sum + sum^2, ten times.
  for (int k = 0; k < 10; ++k) sum = 2 * sum + sum * sum;
  Quad result = 1 + sum;
  const Quad factor = n < 0 ? 0.5 : 2;
  for (double k = 0; k < std::abs(n); ++k) result *= factor;
  return result;
}

// log(y) for y > 0 by Newton's method from the double value.
inline Quad log(Quad y) {
  Quad x = std::log(static_cast<double>(y));
  for (int k = 0; k < 3; ++k) x += y * exp(-x) - 1;
  return x;
}

}  // namespace runmax::testing_quad
