// The weighted sum where a mask or a bias hides keys between visible ones.
#if defined(RUNMAX_KERNELS_FORWARD_CPU_MASKED_VALUES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_FORWARD_CPU_MASKED_VALUES_INL_HPP
#undef RUNMAX_KERNELS_FORWARD_CPU_MASKED_VALUES_INL_HPP
#else
#define RUNMAX_KERNELS_FORWARD_CPU_MASKED_VALUES_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "kernels/forward/cpu/blocks-inl.hpp"
#include "kernels/forward/cpu/score_options.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(forward_tile.chain % 64 == 0);

// Whether a row's bits leave out any of `keys`.
inline bool hides(const std::uint64_t* visible, TileKeys keys) {
  for (std::int64_t word = keys.begin / 64; word * 64 < keys.end; ++word) {
    std::uint64_t asked = ~std::uint64_t{0};
    if (keys.begin > word * 64) asked &= ~std::uint64_t{0} << (keys.begin % 64);
    if (keys.end < (word + 1) * 64) asked &= ~(~std::uint64_t{0} << (keys.end % 64));
    if ((visible[word] & asked) != asked) return true;
  }
  return false;
}

// Whether all of V that the group's channels hold for `keys` is finite: then a weight of 0 adds nothing.
inline bool all_finite(const ValueGroup& group, TileKeys keys) {
  const Floats d;
  Vector sum = hn::Zero(d);
  for (std::int64_t j = keys.begin; j < keys.end; ++j)
    for (std::int64_t c = 0; c < group.width; c += lanes)
      sum = hn::MulAdd(hn::LoadU(d, group.v + j * group.stride + c), hn::Zero(d), sum);
  return hn::AllTrue(d, hn::Eq(sum, hn::Zero(d)));
}

// Row by row, one run of visible keys after the other, so that no weight of 0 meets a value that its row does
// not see. The additions and their order are those of the register tile, less those of zeros.
inline void visible_runs(const ValueTile& t, const ValueGroup& group, std::int64_t first, std::int64_t rows,
                         std::int64_t begin, std::int64_t end) {
  const Floats d;
  for (std::int64_t r = first; r < first + rows; ++r) {
    const TileKeys keys = cut(t.keys[r], begin, end);
    if (keys.begin >= keys.end) continue;
    HWY_ALIGN float sums[forward_tile.value_group] = {};
    const std::uint64_t* visible = t.visible + r * visible_words;
    const auto sees = [&](std::int32_t j) { return (visible[j / 64] >> (j % 64) & 1) != 0; };
    for (std::int32_t j = keys.begin; j < keys.end;) {
      if (!sees(j)) {
        ++j;
        continue;
      }
      TileKeys run{j, j};
      while (run.end < keys.end && sees(run.end)) ++run.end;
      value_strip<1, Into::accumulate>(t, group, r, 1, run, sums, 0);
      j = run.end;
    }
    float* out = t.out + r * t.padded_value_dim + group.channel;
    for (std::int64_t c = 0; c < group.width; c += lanes)
      hn::StoreU(hn::Add(hn::LoadU(d, out + c), hn::LoadU(d, sums + c)), d, out + c);
  }
}

// As `values`; V is searched for what is not finite only where keys are hidden.
inline void masked_values(const ValueTile& t) {
  if (t.rescale) rescale_rows(t);
  const TileKeys all = hull(t.keys, t.rows);
  for (std::int64_t begin = all.begin / forward_tile.chain * forward_tile.chain; begin < all.end;
       begin += forward_tile.chain) {
    const std::int64_t end = begin + forward_tile.chain;
    const TileKeys keys = cut(all, begin, end);
    for (std::int64_t channel = 0; channel < t.padded_value_dim; channel += forward_tile.value_group) {
      const ValueGroup group = value_group(t, channel);
      enum { unknown, finite, not_finite } v = unknown;
      for (std::int64_t first = 0; first < t.rows; first += forward_tile.rows) {
        const std::int64_t rows = std::min(forward_tile.rows, t.rows - first);
        bool hidden = false;
        for (std::int64_t r = first; r < first + rows; ++r) {
          const TileKeys own = cut(t.keys[r], begin, end);
          hidden = hidden || (own.begin < own.end && hides(t.visible + r * visible_words, own));
        }
        if (hidden && v == unknown) v = all_finite(group, keys) ? finite : not_finite;
        if (hidden && v == not_finite) {
          visible_runs(t, group, first, rows, begin, end);
          continue;
        }
        TileKeys own[forward_tile.rows];
        for (std::int64_t r = 0; r < rows; ++r) own[r] = cut(t.keys[first + r], begin, end);
        const SharedKeys shared = shared_keys(own, rows);
        if (!shared.agree)
          ragged_values(t, group, first, rows, begin, end);
        else if (shared.keys.begin < shared.keys.end)
          value_rows<Into::fresh>(t, group, first, rows, shared.keys,
                                  t.out + first * t.padded_value_dim + group.channel, t.padded_value_dim);
      }
    }
  }
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
