// exp by one fixed polynomial, so that a row has the same bits in the page and in a native program.
//
// The standard library's exp differs from one library to the next; WebAssembly has none at all. This one is
// adds, multiplies and integer arithmetic on the exponent alone: built without contraction into fused
// multiply-adds, IEEE 754 leaves no freedom. C++17, freestanding.
#pragma once

#include "../../include/runmax/online_softmax.hpp"

namespace runmax {
namespace page {

struct FixedExp {
  float operator()(float x) const {
    if (x != x) return x;
    // Beyond these the result rounds to infinity, or to less than half of the smallest denormal.
    if (x > 88.7228394f) return -negative_infinity<float>();
    if (x < -104.0f) return 0.0f;
    // x = n ln 2 + r with |r| <= ln 2 / 2. Adding and subtracting 1.5 * 2^23 rounds to an integer; n *
    // ln2_high is exact, since ln2_high ends in enough zeros.
    constexpr float rounder = 12582912.0f;
    constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    const float n = (x * 1.44269504f + rounder) - rounder;
    const float r = (x - n * ln2_high) - n * ln2_low;
    // The series of exp up to r^7 / 7!, of which the rest is below 2^-26 of the result.
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = (p * r) * r + r + 1.0f;
    // 2^n in two factors: n runs from -150 to 128, beyond what one normal number holds.
    const int exponent = static_cast<int>(n), half = exponent / 2;
    return p * power_of_two(half) * power_of_two(exponent - half);
  }

  double operator()(double x) const {
    if (x != x) return x;
    if (x > 709.782712893384) return -negative_infinity<double>();
    if (x < -746.0) return 0.0;
    constexpr double rounder = 6755399441055744.0;  // 1.5 * 2^52
    constexpr double ln2_high = 0.6931471803691238, ln2_low = 1.9082149292705877e-10;
    const double n = (x * 1.4426950408889634 + rounder) - rounder;
    const double r = (x - n * ln2_high) - n * ln2_low;
    double p = 0.0;
    double factorial_inverse[14];
    factorial_inverse[0] = 1.0;
    for (int i = 1; i < 14; ++i) factorial_inverse[i] = factorial_inverse[i - 1] / i;
    for (int i = 13; i >= 2; --i) p = p * r + factorial_inverse[i];
    p = (p * r) * r + r + 1.0;
    const int exponent = static_cast<int>(n), half = exponent / 2;
    return p * power_of_two_double(half) * power_of_two_double(exponent - half);
  }

 private:
  // 2^n for n in [-126, 127], by its bits.
  static float power_of_two(int n) { return __builtin_bit_cast(float, static_cast<unsigned>(n + 127) << 23); }
  // 2^n for n in [-1022, 1023].
  static double power_of_two_double(int n) {
    return __builtin_bit_cast(double, static_cast<unsigned long long>(n + 1023) << 52);
  }
};

}  // namespace page
}  // namespace runmax
