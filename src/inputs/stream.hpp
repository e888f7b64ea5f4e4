// Which random stream a head of a tensor is drawn from: a head has the same numbers whatever stands beside it
// (C++17).
#pragma once

#include <cstdint>

#include "random.hpp"

namespace runmax {
namespace inputs {

enum class Operand : std::uint64_t { q = 0, k = 1, v = 2, dout = 3 };

// `batch` and `head` are the operand's own indices: query heads for q and dout, KV heads for k and v.
inline Random head_stream(std::uint64_t seed, Operand operand, std::int64_t batch, std::int64_t head) {
  const std::uint64_t place =
      (static_cast<std::uint64_t>(batch) << 32) + (static_cast<std::uint64_t>(head) << 2);
  return Random(seed, place + static_cast<std::uint64_t>(operand));
}

}  // namespace inputs
}  // namespace runmax
