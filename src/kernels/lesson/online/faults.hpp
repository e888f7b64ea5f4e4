// The online rule with one planted fault each, to show which gate catches which mistake (C++17, host and
// device).
#pragma once

#include "fold.hpp"

namespace runmax {
namespace lesson {

// The output so far keeps its old scale. Right only while the max does not move after the first tile.
struct OutputNotRescaled : Fold {
  static constexpr const char* name = "no rescale of the output";
  RUNMAX_HOST_DEVICE float output_rescale(float) const { return 1.0f; }
};

// Neither output nor sum is rescaled.
struct NothingRescaled : Fold {
  static constexpr const char* name = "rescale of neither";
  RUNMAX_HOST_DEVICE float raise(SoftmaxState<float>& state, float tile_max) const {
    const float sum = state.sum;
    const float rescale = Fold::raise(state, tile_max);
    state.sum = sum;
    return rescale;
  }
  RUNMAX_HOST_DEVICE float output_rescale(float) const { return 1.0f; }
};

// Each tile is divided by the sum so far, instead of one division at the end.
struct NormalizedPerTile : Fold {
  static constexpr const char* name = "normalised per tile";
  RUNMAX_HOST_DEVICE float mixed(float weight, const SoftmaxState<float>& state) const {
    return weight / state.sum;
  }
  RUNMAX_HOST_DEVICE float finish(float out, const SoftmaxState<float>&) const { return out; }
};

// The tile is summed against the max from before it, and the sum then rescaled with the rest of the history.
struct SumBeforeMax : Fold {
  static constexpr const char* name = "sum updated before the maximum";
  RUNMAX_HOST_DEVICE float counted(float, float score, float max_before, float rescale) const {
    return StandardExp()(score - max_before) * rescale;
  }
};

// Weights are taken against the tile's own largest score.
struct TileAgainstItself : Fold {
  static constexpr const char* name = "tile weighted against its own maximum";
  RUNMAX_HOST_DEVICE float weight(float score, float tile_max, const SoftmaxState<float>&) const {
    return softmax_weight(score, tile_max, StandardExp());
  }
};

// The last tile is never visited.
struct LastTileDropped : Fold {
  static constexpr const char* name = "last tile dropped";
  RUNMAX_HOST_DEVICE std::int64_t tiles(std::int64_t tile_count) const {
    return tile_count > 0 ? tile_count - 1 : 0;
  }
};

// The max starts at 0, so it is too large for a row whose scores are all negative.
struct MaxStartsAtZero : Fold {
  static constexpr const char* name = "maximum started at 0";
  RUNMAX_HOST_DEVICE SoftmaxState<float> begin() const {
    SoftmaxState<float> state;
    state.max = 0.0f;
    return state;
  }
};

// A generous bound stands in for the largest score: every exp underflows, and with them the denominator.
struct DenominatorUnderflows : Fold {
  static constexpr const char* name = "a denominator that underflows";
  static constexpr float slack = 128.0f;  // exp(-128) is below the smallest FP32 denormal
  RUNMAX_HOST_DEVICE float raise(SoftmaxState<float>& state, float tile_max) const {
    return Fold::raise(state, tile_max + slack);
  }
};

}  // namespace lesson
}  // namespace runmax
