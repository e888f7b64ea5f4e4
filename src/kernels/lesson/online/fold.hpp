// How one tile of keys enters a query row's state: the rule that the online kernel and its host twin share.
//
// The rule is an object, so that the same kernel text also runs with one planted fault (faults.hpp). C++17,
// host and device.
#pragma once

#include <cstdint>

#include "../../../../include/runmax/online_softmax.hpp"

namespace runmax {
namespace lesson {

// The right rule. Per row and tile, in this order: raise, weight, counted (summed into state.sum),
// rescaled output plus mixed weights times values; after the last tile, finish.
struct Fold {
  // Nothing seen: max -inf, sum 0.
  RUNMAX_HOST_DEVICE SoftmaxState<float> begin() const { return {}; }

  // How many of the tiles are visited.
  RUNMAX_HOST_DEVICE std::int64_t tiles(std::int64_t tile_count) const { return tile_count; }

  // Raises the max to cover the tile and rescales the sum; returns exp(old max - new max). For the first tile
  // that is exp(-inf) = 0, which wipes the initial state, so no tile is special.
  RUNMAX_HOST_DEVICE float raise(SoftmaxState<float>& state, float tile_max) const {
    return softmax_raise(state, tile_max, StandardExp());
  }

  // The weight of a score, against the raised max.
  RUNMAX_HOST_DEVICE float weight(float score, float /*tile_max*/, const SoftmaxState<float>& state) const {
    return softmax_weight(score, state.max, StandardExp());
  }

  // What the score adds to the sum.
  RUNMAX_HOST_DEVICE float counted(float weight, float /*score*/, float /*max_before*/,
                                   float /*rescale*/) const {
    return weight;
  }

  // By what the output so far is multiplied.
  RUNMAX_HOST_DEVICE float output_rescale(float rescale) const { return rescale; }

  // By what the key's value is multiplied.
  RUNMAX_HOST_DEVICE float mixed(float weight, const SoftmaxState<float>& /*state*/) const { return weight; }

  // The one division. A row that saw no score above -inf is 0; any other sum of zero is an underflow and
  // gives NaN, never a plausible number.
  RUNMAX_HOST_DEVICE float finish(float out, const SoftmaxState<float>& state) const {
    const bool saw_none = state.sum == 0.0f && state.max == negative_infinity<float>();
    return saw_none ? 0.0f : out / state.sum;
  }
};

}  // namespace lesson
}  // namespace runmax
