// exp2 on Highway vectors, for x <= 0: the exponential of every weight.
#if defined(RUNMAX_KERNELS_FORWARD_CPU_EXP2_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_FORWARD_CPU_EXP2_INL_HPP
#undef RUNMAX_KERNELS_FORWARD_CPU_EXP2_INL_HPP
#else
#define RUNMAX_KERNELS_FORWARD_CPU_EXP2_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 2^x for x <= 0, within 1.5 ulp. Below -126, where the result would be subnormal, and for -inf it is exactly
// 0, so that no later product meets a subnormal weight; NaN stays NaN.
//
// x = n + f with n the nearest integer; 2^f is 1 + f p(f), p of degree 5 found by the Remez exchange for the
// relative error on [-1/2, 1/2] (2.6e-9, 0.04 ulp).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_nonpositive(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto below = hn::Lt(x, hn::Set(d, -126.0f));
  const V clamped = hn::IfThenElse(below, hn::Set(d, -126.0f), x);
  // 1.5 * 2^23: the sum's low bits are n.
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::Add(clamped, magic);
  const V f = hn::Sub(clamped, hn::Sub(shifted, magic));
  V p = hn::Set(d, 0x1.470b4ap-13f);
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.5f7276p-10f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.3b270ep-7f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.c6ae72p-5f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.ebfbe2p-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.62e432p-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  // Multiplied, not added to the exponent: NaN times anything stays NaN.
  const auto power = hn::Add(hn::ShiftLeft<23>(hn::BitCast(di, shifted)), hn::Set(di, 127 << 23));
  return hn::IfThenZeroElse(below, hn::Mul(p, hn::BitCast(d, power)));
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
