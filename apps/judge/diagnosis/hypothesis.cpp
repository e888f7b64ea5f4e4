#include "judge/diagnosis/hypothesis.hpp"

#include <algorithm>
#include <cmath>

namespace runmax::diagnosis {

void mix(const Weights& weights, const float* v, std::int64_t value_dim, Prediction& prediction) {
  prediction.out.assign(static_cast<std::size_t>(value_dim), 0.0f);
  float* out = prediction.out.data();
  const float* value = v + weights.keys.begin * value_dim;
  for (const float weight : weights.weight) {
    for (std::int64_t c = 0; c < value_dim; ++c) out[c] += weight * value[c];
    value += value_dim;
  }
  prediction.saw_nothing = weights.weight.empty();
  for (std::int64_t c = 0; c < value_dim; ++c) out[c] /= weights.divisor;
}

Weights softmax_weights(const std::vector<float>& scores, KeyRange keys) {
  Weights weights{keys, {}, 0};
  float max = -std::numeric_limits<float>::infinity();
  for (std::int64_t j = keys.begin; j < keys.end; ++j)
    max = std::max(max, scores[static_cast<std::size_t>(j)]);
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    const float weight = std::exp(scores[static_cast<std::size_t>(j)] - max);
    weights.weight.push_back(weight);
    weights.divisor += weight;
  }
  return weights;
}

std::vector<std::int64_t> key_tiles(const std::vector<Call>& calls) {
  std::vector<std::int64_t> tiles;
  for (const Call& call : calls)
    if (const std::int64_t tile = call.evidence().key_tile; tile > 0) tiles.push_back(tile);
  for (const std::int64_t usual : {32, 64, 128, 16, 8, 256, 4, 1, 2, 96, 48, 192, 512})
    tiles.push_back(usual);
  std::vector<std::int64_t> distinct;
  for (const std::int64_t tile : tiles)
    if (std::find(distinct.begin(), distinct.end(), tile) == distinct.end()) distinct.push_back(tile);
  return distinct;
}

}  // namespace runmax::diagnosis
