#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "measure/read_loop.cpp"
#include <hwy/foreach_target.h>
// foreach_target must come first: it includes this file once per instruction set.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "measure/read_loop.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::measure {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Eight sums, so that no addition waits for the one before; 4 KiB ahead, a page and 64 lines.
template <bool prefetch>
float run_read_loop(const float* data, std::size_t count) {
  const hn::ScalableTag<float> f;
  const std::size_t lanes = hn::Lanes(f), step = 8 * lanes;
  auto s0 = hn::Zero(f), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  std::size_t at = 0;
  for (; at + step <= count; at += step) {
    const float* const from = data + at;
    if constexpr (prefetch)
      for (std::size_t line = 0; line < step; line += 16) hwy::Prefetch(from + 1024 + line);
    s0 = hn::Add(s0, hn::LoadU(f, from));
    s1 = hn::Add(s1, hn::LoadU(f, from + lanes));
    s2 = hn::Add(s2, hn::LoadU(f, from + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(f, from + 3 * lanes));
    s4 = hn::Add(s4, hn::LoadU(f, from + 4 * lanes));
    s5 = hn::Add(s5, hn::LoadU(f, from + 5 * lanes));
    s6 = hn::Add(s6, hn::LoadU(f, from + 6 * lanes));
    s7 = hn::Add(s7, hn::LoadU(f, from + 7 * lanes));
  }
  const auto low = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  const auto high = hn::Add(hn::Add(s4, s5), hn::Add(s6, s7));
  float rest = 0;
  for (; at < count; ++at) rest += data[at];
  return rest + hn::GetLane(hn::SumOfLanes(f, hn::Add(low, high)));
}

float read_plain(const float* data, std::size_t count) { return run_read_loop<false>(data, count); }
float read_ahead(const float* data, std::size_t count) { return run_read_loop<true>(data, count); }

}  // namespace HWY_NAMESPACE
}  // namespace runmax::measure
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace runmax::measure {

HWY_EXPORT(read_plain);
HWY_EXPORT(read_ahead);

float read_loop(const float* data, std::size_t count, bool prefetch) {
  return prefetch ? HWY_DYNAMIC_DISPATCH(read_ahead)(data, count)
                  : HWY_DYNAMIC_DISPATCH(read_plain)(data, count);
}

}  // namespace runmax::measure
#endif
