// FP32, and fp16 and bf16 to FP32 and back, vector by vector: exact upwards, rounded to nearest even
// downwards.
#if defined(RUNMAX_KERNELS_FORWARD_CPU_CONVERT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_FORWARD_CPU_CONVERT_INL_HPP
#undef RUNMAX_KERNELS_FORWARD_CPU_CONVERT_INL_HPP
#else
#define RUNMAX_KERNELS_FORWARD_CPU_CONVERT_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>

// The processor's own conversion of fp16. Highway's emulation elsewhere takes infinities for numbers, and its
// bf16 rounds towards zero.
#undef RUNMAX_HAS_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define RUNMAX_HAS_F16C 1
#else
#define RUNMAX_HAS_F16C 0
#endif

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Halves = hn::Rebind<std::uint16_t, D>;

// Elements in memory.
struct Float32 {
  using Element = float;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V widen(D d, const float* from) {
    return hn::LoadU(d, from);
  }
};

struct Float16 {
  using Element = std::uint16_t;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V widen(D d, const std::uint16_t* from) {
#if RUNMAX_HAS_F16C
    const hn::Rebind<hwy::float16_t, D> d16;
    return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
#else
    const hn::RebindToSigned<D> di;
    const auto bits = hn::PromoteTo(di, hn::LoadU(Halves<D>(), from));
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7fff));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
    const auto bias = hn::Set(di, (127 - 15) << 23);
    auto wide = hn::Add(hn::ShiftLeft<13>(magnitude), bias);
    // Exponent 31 is that of infinities and NaN: 255 in FP32.
    wide = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7bff)), hn::Add(wide, bias), wide);
    // Zeros and subnormals are whole multiples of 2^-24. By way of an integer: a subnormal FP32 number would
    // depend on the caller's denormals-are-zero mode.
    const V small = hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24f));
    wide = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x0400)), hn::BitCast(di, small), wide);
    return hn::BitCast(d, hn::Or(sign, wide));
#endif
  }

  template <class D>
  static HWY_INLINE void narrow(D d, hn::Vec<D> x, std::uint16_t* to) {
#if RUNMAX_HAS_F16C
    const hn::Rebind<hwy::float16_t, D> d16;
    hn::StoreU(hn::DemoteTo(d16, x), d16, reinterpret_cast<hwy::float16_t*>(to));
#else
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(di, x);
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000));
    // From 65520 on everything rounds to infinity, as 65536 does.
    const auto normal = hn::Min(magnitude, hn::Set(di, 0x47800000));
    const auto odd = hn::And(hn::ShiftRight<13>(normal), hn::Set(di, 1));
    auto narrow = hn::ShiftRight<13>(hn::Add(hn::Add(normal, odd), hn::Set(di, 0xfff - ((127 - 15) << 23))));
    // Below 2^-14 the spacing is 2^-24, as it is just above 1/2.
    const auto half = hn::Set(d, 0.5f);
    const auto small =
        hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(di, half));
    narrow = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x38800000)), small, narrow);
    narrow = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7f800000)), hn::Set(di, 0x7e00), narrow);
    hn::StoreU(hn::DemoteTo(Halves<D>(), hn::Or(sign, narrow)), Halves<D>(), to);
#endif
  }
};

struct BFloat16 {
  using Element = std::uint16_t;
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V widen(D d, const std::uint16_t* from) {
    const hn::RebindToSigned<D> di;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(di, hn::LoadU(Halves<D>(), from))));
  }

  template <class D>
  static HWY_INLINE void narrow(D, hn::Vec<D> x, std::uint16_t* to) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, x);
    const auto high = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(high, hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, odd), hn::Set(du, 0x7fff)));
    // Rounding could carry a NaN into an infinity or a zero; its quiet bit is set instead.
    const auto quiet = hn::Or(high, hn::Set(du, 0x40));
    const auto is_number = hn::RebindMask(du, hn::Eq(x, x));
    const auto narrow = hn::IfThenElse(is_number, rounded, quiet);
    hn::StoreU(hn::DemoteTo(Halves<D>(), hn::BitCast(di, narrow)), Halves<D>(), to);
  }
};

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
