#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "measure/fma_loop.cpp"
#include <hwy/foreach_target.h>
// foreach_target must come first: it includes this file once per instruction set.
#include <hwy/highway.h>

#include "measure/fma_loop.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::measure {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve chains: two FMA units with four or five cycles of latency need ten, and AVX2 has 16 registers. Named
// variables, because an array of accumulators may end up in memory and measure that instead.
FmaWork run_fma_loop(std::int64_t rounds) {
  const hn::ScalableTag<float> f;
  // x -> 0.75 x + 0.25 stays near 1: no overflow, no subnormals.
  const auto a = hn::Set(f, 0.75f), b = hn::Set(f, 0.25f);
  auto x0 = hn::Iota(f, 0.0f), x1 = hn::Iota(f, 1.0f), x2 = hn::Iota(f, 2.0f), x3 = hn::Iota(f, 3.0f);
  auto x4 = hn::Iota(f, 4.0f), x5 = hn::Iota(f, 5.0f), x6 = hn::Iota(f, 6.0f), x7 = hn::Iota(f, 7.0f);
  auto x8 = hn::Iota(f, 8.0f), x9 = hn::Iota(f, 9.0f), x10 = hn::Iota(f, 10.0f), x11 = hn::Iota(f, 11.0f);
  for (std::int64_t round = 0; round < rounds; ++round) {
    x0 = hn::MulAdd(x0, a, b);
    x1 = hn::MulAdd(x1, a, b);
    x2 = hn::MulAdd(x2, a, b);
    x3 = hn::MulAdd(x3, a, b);
    x4 = hn::MulAdd(x4, a, b);
    x5 = hn::MulAdd(x5, a, b);
    x6 = hn::MulAdd(x6, a, b);
    x7 = hn::MulAdd(x7, a, b);
    x8 = hn::MulAdd(x8, a, b);
    x9 = hn::MulAdd(x9, a, b);
    x10 = hn::MulAdd(x10, a, b);
    x11 = hn::MulAdd(x11, a, b);
  }
  const auto low = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)), hn::Add(x4, x5));
  const auto high = hn::Add(hn::Add(hn::Add(x6, x7), hn::Add(x8, x9)), hn::Add(x10, x11));
  FmaWork work;
  work.flops = 2.0 * 12.0 * static_cast<double>(hn::Lanes(f)) * static_cast<double>(rounds);
  work.value = hn::GetLane(hn::SumOfLanes(f, hn::Add(low, high)));
  return work;
}

}  // namespace HWY_NAMESPACE
}  // namespace runmax::measure
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace runmax::measure {

HWY_EXPORT(run_fma_loop);

FmaWork fma_loop(std::int64_t rounds) { return HWY_DYNAMIC_DISPATCH(run_fma_loop)(rounds); }

}  // namespace runmax::measure
#endif
