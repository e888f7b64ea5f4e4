#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/engine_exp2.cpp"
#include <hwy/foreach_target.h>
// foreach_target must come first: it includes this file once per instruction set.
#include <hwy/highway.h>

#include "bench/engine_exp2.hpp"
#include "kernels/forward/cpu/exp2-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void run_engine_exp2(const float* x, float scale, float* y, std::size_t count) {
  // The vectors of the kernels: sixteen lanes at most.
  const hn::CappedTag<float, 16> d;
  const auto scales = hn::Set(d, scale);
  const auto lowest = hn::Set(d, cpu::HWY_NAMESPACE::lowest_exponent(scale));
  // Four vectors at a time, as in the kernels.
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    hn::Vec<decltype(d)> block[4] = {hn::LoadU(d, x + i), hn::LoadU(d, x + i + lanes),
                                     hn::LoadU(d, x + i + 2 * lanes), hn::LoadU(d, x + i + 3 * lanes)};
    cpu::HWY_NAMESPACE::exp2_scaled(d, block, scales, lowest);
    for (std::size_t n = 0; n < 4; ++n) hn::StoreU(block[n], d, y + i + n * lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace runmax::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace runmax::bench {

HWY_EXPORT(run_engine_exp2);

void engine_exp2(const float* x, float scale, float* y, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(run_engine_exp2)(x, scale, y, count);
}

}  // namespace runmax::bench
#endif
