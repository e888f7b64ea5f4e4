// exp2 on Highway vectors, for x <= 0: the exponential of every weight.
#if defined(RUNMAX_KERNELS_FORWARD_CPU_EXP2_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_FORWARD_CPU_EXP2_INL_HPP
#undef RUNMAX_KERNELS_FORWARD_CPU_EXP2_INL_HPP
#else
#define RUNMAX_KERNELS_FORWARD_CPU_EXP2_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/forward/cpu/config.hpp"

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

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
// With AVX-512: scale * x = n + i/16 + f, and 2^(i/16) (1 + f q(f)) with a table in one register; q of degree
// 2 has the smallest relative error on [-1/32, 1/32] (1.6e-9, 0.02 ulp). VSCALEF takes the whole part of its
// second operand, and its mask makes 0 of what is below `lowest`. 11 operations where the polynomial has 13.
template <int count, class D, class V>
HWY_INLINE void exp2_from_table(D d, V (&x)[count], V scale, V lowest) {
  alignas(64) static constexpr float sixteenths[16] = {
      0x1.000000p+0f, 0x1.0b5586p+0f, 0x1.172b84p+0f, 0x1.2387a6p+0f, 0x1.306fe0p+0f, 0x1.3dea64p+0f,
      0x1.4bfdaep+0f, 0x1.5ab07ep+0f, 0x1.6a09e6p+0f, 0x1.7a1148p+0f, 0x1.8ace54p+0f, 0x1.9c4918p+0f,
      0x1.ae89fap+0f, 0x1.c199bep+0f, 0x1.d5818ep+0f, 0x1.ea4afap+0f};
  const V table = hn::Load(d, sixteenths);
  // 1.5 * 2^19: the sum's last bit is worth 1/16.
  const V magic = hn::Set(d, 786432.0f);
  __mmask16 counts[count];
  V n[count], root[count], f[count], p[count];
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i) counts[i] = _mm512_cmp_ps_mask(x[i].raw, lowest.raw, _CMP_NLT_UQ);
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i) n[i] = hn::MulAdd(x[i], scale, magic);
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i)
    root[i] = V{_mm512_permutexvar_ps(_mm512_castps_si512(n[i].raw), table.raw)};
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i) n[i] = hn::Sub(n[i], magic);
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i) f[i] = hn::MulSub(x[i], scale, n[i]);
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i)
    p[i] = hn::MulAdd(hn::Set(d, 0x1.c6ac68p-5f), f[i], hn::Set(d, 0x1.ebfff6p-3f));
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i) p[i] = hn::MulAdd(p[i], f[i], hn::Set(d, 0x1.62e430p-1f));
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i) f[i] = hn::Mul(root[i], f[i]);
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i) p[i] = hn::MulAdd(p[i], f[i], root[i]);
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i) x[i] = V{_mm512_maskz_scalef_ps(counts[i], p[i].raw, n[i].raw)};
}
#endif

// scale * x = n + f with n the nearest integer; 2^(1 + f) is 2 + f p(f), p of degree 5 found by the Remez
// exchange for the relative error on [-1/2, 1/2] (2.6e-9, 0.04 ulp), and 2^(n - 1) is put together from n's
// bits: at n = -126 they are those of 0.
template <int count, class D, class V>
HWY_INLINE void exp2_from_polynomial(D d, V (&x)[count], V scale, V lowest) {
  const hn::RebindToSigned<D> di;
  // 1.5 * 2^23 + 126: the sum's low bits are n + 126, the exponent field of 2^(n - 1).
  const V magic = hn::Set(d, 12583038.0f);
  V shifted[count], f[count], p[count];
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i) x[i] = at_least(lowest, x[i]);
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i) shifted[i] = hn::MulAdd(x[i], scale, magic);
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i) f[i] = hn::MulSub(x[i], scale, hn::Sub(shifted[i], magic));
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i) p[i] = hn::Set(d, 0x1.470b4ap-12f);
  for (const float coefficient :
       {0x1.5f7276p-9f, 0x1.3b270ep-6f, 0x1.c6ae72p-4f, 0x1.ebfbe2p-2f, 0x1.62e432p-0f, 2.0f}) {
    RUNMAX_UNROLL
    for (int i = 0; i < count; ++i) p[i] = hn::MulAdd(p[i], f[i], hn::Set(d, coefficient));
  }
  // Multiplied, not added to the exponent: NaN times anything stays NaN.
  RUNMAX_UNROLL
  for (int i = 0; i < count; ++i)
    x[i] = hn::Mul(p[i], hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted[i]))));
}

// x = 2^(scale * x) for x <= 0 and 0 < scale, within 1.5 ulp of 2^ of the exact product. Below 2^-125.5, and
// for -inf, it is exactly 0, so that no later product meets a subnormal weight; NaN stays NaN. The product is
// not rounded: f comes out of one fused multiply-add where the processor has it.
//
// Several vectors go through it step by step together: one after the other, as many of their operations as
// the scheduler holds would mostly wait for each other (8.5 instead of 7.8 cycles for a vector of 16).
template <int count, class D, class V>
HWY_INLINE void exp2_scaled(D d, V (&x)[count], V scale, V lowest) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  exp2_from_table(d, x, scale, lowest);
#else
  exp2_from_polynomial(d, x, scale, lowest);
#endif
}

// The same of one vector.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_scaled(D d, V x, V scale, V lowest) {
  V one[1] = {x};
  exp2_scaled(d, one, scale, lowest);
  return one[0];
}

// The `lowest` of exp2_scaled.
inline float lowest_exponent(float scale) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  return -125.5f / scale;  // what lies below is 0
#else
  return -126.0f / scale;  // scale * lowest rounds to n = -126
#endif
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
