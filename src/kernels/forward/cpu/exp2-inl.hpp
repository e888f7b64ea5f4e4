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

// The larger of `floor` and x; NaN in x stays.
template <class V>
HWY_INLINE V at_least(V floor, V x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  // The instruction returns its second operand if either is NaN.
  return hn::Max(floor, x);
#else
  return hn::IfThenElse(hn::Lt(x, floor), floor, x);
#endif
}

// 2^(scale * x) for x <= 0 and 0 < scale, within 1.5 ulp of 2^ of the exact product. Below 2^-125.5, and for
// -inf, it is exactly 0, so that no later product meets a subnormal weight; NaN stays NaN.
//
// scale * x = n + f with n the nearest integer; 2^(1 + f) is 2 + f p(f), p of degree 5 found by the Remez
// exchange for the relative error on [-1/2, 1/2] (2.6e-9, 0.04 ulp), and 2^(n - 1) is put together from n's
// bits: at n = -126 they are those of 0. The product is not rounded: f comes out of one fused multiply-add
// where the processor has it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_scaled(D d, V x, V scale, V lowest) {
  const hn::RebindToSigned<D> di;
  const V clamped = at_least(lowest, x);
  // 1.5 * 2^23 + 126: the sum's low bits are n + 126, the exponent field of 2^(n - 1).
  const V magic = hn::Set(d, 12583038.0f);
  const V shifted = hn::MulAdd(clamped, scale, magic);
  const V f = hn::MulSub(clamped, scale, hn::Sub(shifted, magic));
  V p = hn::Set(d, 0x1.470b4ap-12f);
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.5f7276p-9f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.3b270ep-6f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.c6ae72p-4f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.ebfbe2p-2f));
  p = hn::MulAdd(p, f, hn::Set(d, 0x1.62e432p-0f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.0f));
  // Multiplied, not added to the exponent: NaN times anything stays NaN.
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

// The `lowest` of exp2_scaled: scale * lowest rounds to n = -126.
inline float lowest_exponent(float scale) { return -126.0f / scale; }

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
