// Which keys a query row sees by causality and window, inside a kernel.
#pragma once

#include <cstdint>

#include "runmax/problem.hpp"

namespace runmax {

// Key j is visible to query i iff first(i) <= j < last(i). Index is int where the plan has bounded the
// lengths.
template <class Index>
struct VisibleKeys {
  Index kv_len;
  Index offset;       // the diagonal is at key i + offset
  Index left, right;  // inclusive distances from it; -1 is unbounded

  __device__ Index first(Index i) const {
    return left < 0 ? Index{0} : min(max(i + offset - left, Index{0}), kv_len);
  }
  __device__ Index last(Index i) const {
    return right < 0 ? kv_len : min(max(i + offset + right + 1, Index{0}), kv_len);
  }
};

// Of a problem whose query_len + kv_len fits in Index twice over.
template <class Index>
VisibleKeys<Index> visible_keys_of(const Problem& p) {
  // A window wider than both lengths is unbounded, so every distance that is left fits as well.
  const auto distance = [&](std::int64_t window) {
    return window > p.query_len + p.kv_len ? Index{-1} : static_cast<Index>(window);
  };
  return {static_cast<Index>(p.kv_len), static_cast<Index>(diagonal_offset(p.causal, p.query_len, p.kv_len)),
          distance(p.window.left), p.causal == Causal::none ? distance(p.window.right) : Index{0}};
}

}  // namespace runmax
