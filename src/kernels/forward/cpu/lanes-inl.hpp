// The vector of the CPU kernels: at most a panel of floats.
#if defined(RUNMAX_KERNELS_FORWARD_CPU_LANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_FORWARD_CPU_LANES_INL_HPP
#undef RUNMAX_KERNELS_FORWARD_CPU_LANES_INL_HPP
#else
#define RUNMAX_KERNELS_FORWARD_CPU_LANES_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "kernels/forward/cpu/config.hpp"
#include "kernels/forward/cpu/tiles.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, forward_tile.panel>;
using Vector = hn::Vec<Floats>;
constexpr std::int64_t lanes = static_cast<std::int64_t>(hn::MaxLanes(Floats()));
static_assert(forward_tile.panel % lanes == 0);

// Lanes of a vector that starts at key `at` whose keys lie in `keys`.
HWY_INLINE hn::Mask<Floats> lanes_between(std::int64_t at, TileKeys keys) {
  const Floats d;
  const auto low = static_cast<std::size_t>(std::clamp<std::int64_t>(keys.begin - at, 0, lanes));
  const auto high = static_cast<std::size_t>(std::clamp<std::int64_t>(keys.end - at, 0, lanes));
  return hn::AndNot(hn::FirstN(d, low), hn::FirstN(d, high));
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
