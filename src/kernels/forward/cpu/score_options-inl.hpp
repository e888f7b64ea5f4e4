// The SIMD loops of the options: one row of a tile at a time.
#if defined(RUNMAX_KERNELS_FORWARD_CPU_SCORE_OPTIONS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef RUNMAX_KERNELS_FORWARD_CPU_SCORE_OPTIONS_INL_HPP
#undef RUNMAX_KERNELS_FORWARD_CPU_SCORE_OPTIONS_INL_HPP
#else
#define RUNMAX_KERNELS_FORWARD_CPU_SCORE_OPTIONS_INL_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/forward/cpu/lanes-inl.hpp"
#include "kernels/forward/cpu/score_options.hpp"
#include "kernels/forward/cpu/tanh-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace runmax::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lane l is lane `j + l` of the row, as long as it lies in `keys`; other lanes hold `other` and are not read.
template <class T>
HWY_INLINE const T* lanes_of(const T* row, std::int64_t j, TileKeys keys, T other, T (&buffer)[lanes]) {
  if (j >= keys.begin && j + lanes <= keys.end) return row + j;
  std::fill(buffer, buffer + lanes, other);
  const std::int64_t low = std::max<std::int64_t>(keys.begin, j);
  const std::int64_t high = std::min<std::int64_t>(keys.end, j + lanes);
  std::copy(row + low, row + high, buffer + (low - j));
  return buffer;
}

HWY_INLINE hn::Mask<Floats> true_lanes(const std::uint8_t* bytes) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const hn::Rebind<std::uint8_t, Floats> d8;
  const auto wide = hn::PromoteTo(du, hn::LoadU(d8, bytes));
  return hn::RebindMask(d, hn::Ne(wide, hn::Zero(du)));
}

HWY_INLINE std::uint64_t mask_bits(hn::Mask<Floats> mask) {
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(Floats(), mask, bytes);
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits & ((std::uint64_t{1} << lanes) - 1);
}

inline void transform(const ScoreUnits& units, const OptionRow& row) {
  const Floats d;
  const Vector hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
  const Vector factor = hn::Set(d, units.factor);
  const Vector cap = hn::Set(d, units.softcap), cap_factor = hn::Set(d, units.cap_factor);
  const Vector slope = hn::Set(d, row.slope);
  const Vector iota = hn::Iota(d, 0.0f);
  Vector largest = hn::Set(d, std::numeric_limits<float>::lowest());
  if (row.visible) std::fill(row.visible, row.visible + visible_words, std::uint64_t{0});

  for (std::int64_t j = row.keys.begin / lanes * lanes; j < row.keys.end; j += lanes) {
    hn::Mask<Floats> visible = lanes_between(j, row.keys);
    Vector score = hn::LoadU(d, row.scores + j);
    if (units.softcap != 0.0f) {
      const auto tanh = tanh_with_slope(d, hn::Mul(score, cap_factor));
      if (row.cap_slope) hn::StoreU(tanh.slope, d, row.cap_slope + j);
      score = hn::Mul(cap, tanh.value);
    }
    if (row.bias) {
      float buffer[lanes];
      const Vector bias = hn::LoadU(d, lanes_of(row.bias, j, row.keys, 0.0f, buffer));
      // Not by Ne, which is false for NaN on some targets: a NaN bias hides nothing.
      visible = hn::AndNot(hn::Eq(bias, hidden), visible);
      score = units.softcap != 0.0f ? hn::Add(score, bias) : hn::MulAdd(score, factor, bias);
    } else if (units.softcap == 0.0f) {
      score = hn::Mul(score, factor);
    }
    if (row.slope != 0.0f) {
      const Vector distance = hn::Abs(hn::Sub(hn::Set(d, static_cast<float>(row.diagonal - j)), iota));
      score = hn::NegMulAdd(slope, distance, score);
    }
    if (row.mask) {
      std::uint8_t buffer[lanes];
      visible = hn::And(visible, true_lanes(lanes_of(row.mask, j, row.keys, std::uint8_t{0}, buffer)));
    }
    score = hn::IfThenElse(visible, score, hidden);
    hn::StoreU(score, d, row.scores + j);
    // The second operand survives a NaN in the first: a NaN score never becomes the maximum.
    largest = hn::Max(score, largest);
    if (row.visible) row.visible[j / 64] |= mask_bits(visible) << (j % 64);
  }
  if (row.lane_max) hn::StoreU(largest, d, row.lane_max);
}

#if HWY_TARGET == HWY_SCALAR
inline void drop(float* weights, TileKeys keys, PhiloxKey key, std::uint32_t threshold, std::int64_t query,
                 std::int64_t first_key) {
  for (std::int64_t j = keys.begin; j < keys.end; ++j)
    if (!dropout_keeps(key, threshold, query, first_key + j)) weights[j] = 0.0f;
}
#else
// One block of four keys in each 64-bit lane: the low halves hold the counter's words, the high halves
// whatever is left there, which no multiplication reads. Four vectors of blocks go through the rounds
// together: a round is a chain of a multiplication and three more operations that nothing else could hide.
inline void drop(float* weights, TileKeys keys, PhiloxKey key, std::uint32_t threshold, std::int64_t query,
                 std::int64_t first_key) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const hn::Repartition<std::uint64_t, Floats> d64;
  using Words = hn::Vec<decltype(d64)>;
  constexpr std::int64_t blocks = static_cast<std::int64_t>(hn::MaxLanes(decltype(d64)()));
  constexpr int vectors = 4;
  constexpr std::int64_t step = 4 * blocks * vectors;
  const auto first = hn::Set(du, 0xD2511F53u), second = hn::Set(du, 0xCD9E8D57u);
  const Words low_half = hn::Set(d64, 0xffffffffu);
  const auto least = hn::Set(du, threshold);
  for (std::int64_t j = keys.begin / step * step; j < keys.end; j += step) {
    const PhiloxCounter at = dropout_counter(query, (first_key + j) / 4);
    const auto block = (static_cast<std::uint64_t>(at.word[1]) << 32) | at.word[0];
    Words word0[vectors], word1[vectors], word2[vectors], word3[vectors];
    RUNMAX_UNROLL
    for (int v = 0; v < vectors; ++v) {
      word0[v] = hn::Iota(d64, block + static_cast<std::uint64_t>(v * blocks));
      word1[v] = hn::ShiftRight<32>(word0[v]);
      word2[v] = hn::Set(d64, static_cast<std::uint64_t>(at.word[2]));
      word3[v] = hn::Set(d64, static_cast<std::uint64_t>(at.word[3]));
    }
    PhiloxKey round_key = key;
    for (int round = 0; round < 10; ++round) {
      const Words key0 = hn::Set(d64, static_cast<std::uint64_t>(round_key.word[0]));
      const Words key1 = hn::Set(d64, static_cast<std::uint64_t>(round_key.word[1]));
      RUNMAX_UNROLL
      for (int v = 0; v < vectors; ++v) {
        const Words a = hn::MulEven(hn::BitCast(du, word0[v]), first);
        const Words b = hn::MulEven(hn::BitCast(du, word2[v]), second);
        word0[v] = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), word1[v]), key0);
        word2[v] = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), word3[v]), key1);
        word1[v] = b;
        word3[v] = a;
      }
      round_key.word[0] += 0x9E3779B9u;
      round_key.word[1] += 0xBB67AE85u;
    }
    HWY_ALIGN std::uint64_t words[2 * blocks * vectors];
    RUNMAX_UNROLL
    for (int v = 0; v < vectors; ++v)
      hn::StoreInterleaved2(hn::Or(hn::And(word0[v], low_half), hn::ShiftLeft<32>(word1[v])),
                            hn::Or(hn::And(word2[v], low_half), hn::ShiftLeft<32>(word3[v])), d64,
                            words + 2 * blocks * v);
    for (std::int64_t part = 0; part < step; part += lanes) {
      if (j + part + lanes <= keys.begin || j + part >= keys.end) continue;
      const auto word = hn::BitCast(du, hn::LoadU(d64, words + part / 2));
      const auto kept = hn::RebindMask(d, hn::Eq(hn::Max(word, least), word));
      float* to = weights + j + part;
      hn::StoreU(hn::IfThenElseZero(kept, hn::LoadU(d, to)), d, to);
    }
  }
}
#endif

inline void tanh_array(const float* in, float* out, float* slope, std::int64_t count) {
  const Floats d;
  for (std::int64_t i = 0; i < count; i += lanes) {
    float buffer[lanes] = {}, slopes[lanes] = {};
    const auto n = static_cast<std::size_t>(std::min(lanes, count - i));
    std::memcpy(buffer, in + i, n * sizeof(float));
    const auto tanh = tanh_with_slope(d, hn::LoadU(d, buffer));
    hn::StoreU(tanh.value, d, buffer);
    hn::StoreU(tanh.slope, d, slopes);
    std::memcpy(out + i, buffer, n * sizeof(float));
    std::memcpy(slope + i, slopes, n * sizeof(float));
  }
}

}  // namespace runmax::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
