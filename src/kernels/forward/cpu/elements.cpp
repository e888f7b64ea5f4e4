// Compiles the conversions of element types once per instruction set and picks one at run time.
#include "kernels/forward/cpu/elements.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/forward/cpu/config.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/forward/cpu/elements.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/forward/cpu/convert-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::CappedTag<float, forward_tile.panel>;
constexpr std::int64_t wide_lanes = static_cast<std::int64_t>(hn::MaxLanes(Wide()));

template <class Format>
inline void widen_row(const std::uint16_t* from, std::int64_t stride, std::int64_t channels, float* to) {
  const Wide d;
  std::int64_t c = 0;
  if (stride == 1)
    for (; c + wide_lanes <= channels; c += wide_lanes) hn::StoreU(Format::widen(d, from + c), d, to + c);
  for (; c < channels; c += wide_lanes) {
    const std::int64_t count = std::min(wide_lanes, channels - c);
    std::uint16_t gathered[wide_lanes] = {};
    for (std::int64_t i = 0; i < count; ++i) gathered[i] = from[(c + i) * stride];
    float converted[wide_lanes];
    hn::StoreU(Format::widen(d, gathered), d, converted);
    std::memcpy(to + c, converted, static_cast<std::size_t>(count) * sizeof(float));
  }
}

inline void widen_row(const float* from, std::int64_t stride, std::int64_t channels, float* to) {
  if (stride == 1)
    std::copy(from, from + channels, to);
  else
    for (std::int64_t c = 0; c < channels; ++c) to[c] = from[c * stride];
}

inline void widen(const ElementRows& source, std::int64_t rows, std::int64_t channels, float* to) {
  const std::int64_t row_bytes = channels * (source.dtype == DType::f32 ? 4 : 2);
  for (std::int64_t r = 0; r < rows; ++r, to += channels) {
    const void* row = element_at(source.data, source.dtype, r * source.row_stride);
    if (source.channel_stride == 1 && source.later) {
      const auto* ahead =
          static_cast<const char*>(element_at(source.later, source.dtype, r * source.row_stride));
      for (std::int64_t byte = 0; byte < row_bytes; byte += region_bytes) hwy::Prefetch(ahead + byte);
    }
    if (source.dtype == DType::f16)
      widen_row<Float16>(static_cast<const std::uint16_t*>(row), source.channel_stride, channels, to);
    else if (source.dtype == DType::bf16)
      widen_row<BFloat16>(static_cast<const std::uint16_t*>(row), source.channel_stride, channels, to);
    else
      widen_row(static_cast<const float*>(row), source.channel_stride, channels, to);
  }
}

template <class Format>
inline void narrow_row(const float* from, std::int64_t count, std::uint16_t* to, std::int64_t stride) {
  const Wide d;
  std::int64_t c = 0;
  if (stride == 1)
    for (; c + wide_lanes <= count; c += wide_lanes) Format::narrow(d, hn::LoadU(d, from + c), to + c);
  for (; c < count; c += wide_lanes) {
    const std::int64_t rest = std::min(wide_lanes, count - c);
    float values[wide_lanes] = {};
    std::memcpy(values, from + c, static_cast<std::size_t>(rest) * sizeof(float));
    std::uint16_t converted[wide_lanes];
    Format::narrow(d, hn::LoadU(d, values), converted);
    for (std::int64_t i = 0; i < rest; ++i) to[(c + i) * stride] = converted[i];
  }
}

inline void narrow(const float* from, std::int64_t count, DType dtype, void* to, std::int64_t stride) {
  if (dtype == DType::f16)
    narrow_row<Float16>(from, count, static_cast<std::uint16_t*>(to), stride);
  else if (dtype == DType::bf16)
    narrow_row<BFloat16>(from, count, static_cast<std::uint16_t*>(to), stride);
  else
    for (std::int64_t c = 0; c < count; ++c) static_cast<float*>(to)[c * stride] = from[c];
}

const ElementFunctions* element_table() {
  static const ElementFunctions table{widen, narrow};
  return &table;
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace runmax::cpu {

HWY_EXPORT(element_table);

const ElementFunctions& element_functions() { return *HWY_DYNAMIC_DISPATCH(element_table)(); }

}  // namespace runmax::cpu
#endif
