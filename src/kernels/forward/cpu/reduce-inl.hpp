// Sums and maxima over the lanes of four vectors at once: a third of the shuffles of one after the other.
#if defined(RUNMAX_KERNELS_FORWARD_CPU_REDUCE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_FORWARD_CPU_REDUCE_INL_HPP
#undef RUNMAX_KERNELS_FORWARD_CPU_REDUCE_INL_HPP
#else
#define RUNMAX_KERNELS_FORWARD_CPU_REDUCE_INL_HPP
#endif

#include <hwy/highway.h>

#include "kernels/forward/cpu/products-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
using Four = hn::FixedTag<float, 4>;

// One value for each block of four lanes.
template <class D, class V, class Combine>
HWY_INLINE hn::Vec<Four> combine_blocks(D d, V v, Combine combine) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return combine_blocks(half, combine(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), combine);
  }
}

template <class Combine>
HWY_INLINE void combine_lanes(const Vector (&v)[4], float* results, Combine combine) {
  const Floats d;
  const hn::Repartition<double, Floats> pairs;
  const auto halves = [&](Vector a, Vector b) HWY_ATTR {
    return hn::BitCast(pairs, combine(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  };
  const auto low = halves(v[0], v[1]), high = halves(v[2], v[3]);
  const Vector all = combine(hn::BitCast(d, hn::InterleaveLower(pairs, low, high)),
                             hn::BitCast(d, hn::InterleaveUpper(pairs, low, high)));
  hn::StoreU(combine_blocks(d, all, combine), Four(), results);
}

// results[i]: the sum of the lanes of v[i].
HWY_INLINE void sums_of_lanes(const Vector (&v)[4], float* results) {
  combine_lanes(v, results, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

// results[i]: the largest lane of v[i], none of which is NaN.
HWY_INLINE void maxima_of_lanes(const Vector (&v)[4], float* results) {
  combine_lanes(v, results, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
}
#else
HWY_INLINE void sums_of_lanes(const Vector (&v)[4], float* results) {
  for (int i = 0; i < 4; ++i) results[i] = hn::GetLane(v[i]);
}
HWY_INLINE void maxima_of_lanes(const Vector (&v)[4], float* results) { sums_of_lanes(v, results); }
#endif

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
