// tanh on Highway vectors, and its derivative: the softcap.
#if defined(RUNMAX_KERNELS_FORWARD_CPU_TANH_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_FORWARD_CPU_TANH_INL_HPP
#undef RUNMAX_KERNELS_FORWARD_CPU_TANH_INL_HPP
#else
#define RUNMAX_KERNELS_FORWARD_CPU_TANH_INL_HPP
#endif

#include <hwy/highway.h>

#include "kernels/forward/cpu/exp2-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class V>
struct Tanh {
  V value;
  V slope;  // 1 - value^2, accurate where value is nearly 1 too
};

// Within 2 ulp, never beyond [-1, 1]; odd, NaN stays NaN. The slope is within 2^-22 and, far out where it is
// small, 40 ulp (cpu_option_functions_test).
//
// Below 5/8 in size x + x^3 p(x^2), p of degree 4 found by the Remez exchange for the relative error of the
// whole (4.5e-9, 0.08 ulp). Above, with e = exp(-2|x|) <= 0.29, (1 - e) / (1 + e), where an error of e counts
// for little; the slope there is 4 e / (1 + e)^2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE Tanh<V> tanh_with_slope(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V size = hn::Abs(x);

  const V square = hn::Mul(size, size);
  V p = hn::Set(d, -0x1.762d84p-8f);
  p = hn::MulAdd(p, square, hn::Set(d, 0x1.5239d2p-6f));
  p = hn::MulAdd(p, square, hn::Set(d, -0x1.b83fcap-5f));
  p = hn::MulAdd(p, square, hn::Set(d, 0x1.110748p-3f));
  p = hn::MulAdd(p, square, hn::Set(d, -0x1.555534p-2f));
  const V near = hn::MulAdd(hn::Mul(size, square), p, size);

  const float scale = 2.8853900817779268f;  // 2 log2(e)
  const V e = exp2_scaled(d, hn::Neg(size), hn::Set(d, scale), hn::Set(d, lowest_exponent(scale)));
  const V reciprocal = hn::Div(one, hn::Add(one, e));
  const V far = hn::Div(hn::Sub(one, e), hn::Add(one, e));

  const auto is_far = hn::Ge(size, hn::Set(d, 0.625f));
  Tanh<V> result;
  // Where x is NaN nothing compares true, and `near` is NaN.
  result.value = hn::CopySign(hn::IfThenElse(is_far, far, near), x);
  const V twice = hn::Add(reciprocal, reciprocal);
  result.slope = hn::IfThenElse(is_far, hn::Mul(e, hn::Mul(twice, twice)), hn::NegMulAdd(near, near, one));
  return result;
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
