// A row of up to sixteen scores swept tile by tile: by the online rule, by two famous mistakes, and by plain
// softmax as the truth (C++17, freestanding).
//
// Everything that is carried from tile to tile goes through include/runmax/online_softmax.hpp. The structs
// are plain runs of floats, because JavaScript reads them from memory by position.
#pragma once

#include "../../include/runmax/online_softmax.hpp"
#include "fixed_exp.hpp"

namespace runmax {
namespace page {

constexpr int max_keys = 16;
constexpr int value_dim = 4;

struct Row {
  float scores[max_keys];
  float values[max_keys][value_dim];
};

// How a tile enters the state.
enum class Rule {
  online,               // everything carried is rescaled, one division at the end
  output_not_rescaled,  // the output so far keeps its old scale
  normalized_per_tile,  // each tile is divided by the sum so far, and there is no division at the end
};
constexpr int rule_count = 3;

// What one tile did to a row.
struct TileStep {
  float old_max, tile_max, max;
  float rescale;  // exp(old_max - max), by which the past is multiplied
  float old_sum, tile_sum, sum;
  float lse;
  float old_out[value_dim], tile_out[value_dim], out[value_dim];
  float result[value_dim];  // the answer, if the row ended here
  float weights[max_keys];  // of this tile's keys, from position 0 on
};
constexpr int step_floats = sizeof(TileStep) / sizeof(float);
static_assert(step_floats == 40);

// Natural logarithm for lse alone, by the inverse of the fixed exp: three Newton steps from the exponent.
inline float fixed_log(float x) {
  if (!(x > 0.0f) || x == -negative_infinity<float>()) return x == 0.0f ? negative_infinity<float>() : x;
  const unsigned bits = __builtin_bit_cast(unsigned, x);
  double y = (static_cast<int>(bits >> 23) - 127) * 0.6931471805599453;
  for (int i = 0; i < 6; ++i) {
    const double e = FixedExp()(y);
    y += 2.0 * (static_cast<double>(x) - e) / (static_cast<double>(x) + e);
  }
  return static_cast<float>(y);
}

inline float row_lse(const SoftmaxState<float>& state) {
  return state.sum == 0.0f ? negative_infinity<float>() : state.max + fixed_log(state.sum);
}

// Folds keys [begin, end) of the row into the state under a rule.
inline TileStep fold_tile(const Row& row, int begin, int end, Rule rule,
                          AttentionState<float, value_dim>& state) {
  const FixedExp exp;
  TileStep step = {};
  step.old_max = state.softmax.max;
  step.old_sum = state.softmax.sum;
  step.tile_max = negative_infinity<float>();
  for (int j = begin; j < end; ++j) step.tile_max = softmax_max(step.tile_max, row.scores[j]);
  step.rescale = softmax_raise(state.softmax, step.tile_max, exp);
  step.max = state.softmax.max;
  for (int j = begin; j < end; ++j) {
    step.weights[j - begin] = softmax_weight(row.scores[j], step.max, exp);
    step.tile_sum += step.weights[j - begin];
  }
  state.softmax.sum += step.tile_sum;
  step.sum = state.softmax.sum;
  const float output_rescale = rule == Rule::output_not_rescaled ? 1.0f : step.rescale;
  const float normalizer = softmax_normalizer(state.softmax);
  for (int c = 0; c < value_dim; ++c) {
    step.old_out[c] = state.out[c];
    for (int j = begin; j < end; ++j) {
      const float weight = step.weights[j - begin];
      step.tile_out[c] +=
          (rule == Rule::normalized_per_tile ? weight * normalizer : weight) * row.values[j][c];
    }
    state.out[c] = state.out[c] * output_rescale + step.tile_out[c];
    step.out[c] = state.out[c];
    step.result[c] = rule == Rule::normalized_per_tile ? state.out[c] : state.out[c] * normalizer;
  }
  step.lse = row_lse(state.softmax);
  return step;
}

// Sweeps `keys` scores in tiles of `tile`; returns the number of tiles, one record each in `steps`.
inline int sweep(const Row& row, int keys, int tile, Rule rule, TileStep (&steps)[max_keys]) {
  AttentionState<float, value_dim> state;
  int count = 0;
  for (int begin = 0; begin < keys; begin += tile) {
    const int end = begin + tile < keys ? begin + tile : keys;
    steps[count++] = fold_tile(row, begin, end, rule, state);
  }
  return count;
}

// Plain softmax of the first `keys` scores as the textbook writes it: maximum, sum, then the mix, each in its
// own pass over the row, in double.
inline void plain_softmax(const Row& row, int keys, double (&result)[value_dim]) {
  const FixedExp exp;
  double max = negative_infinity<double>(), sum = 0;
  for (int j = 0; j < keys; ++j) max = softmax_max(max, static_cast<double>(row.scores[j]));
  for (int j = 0; j < keys; ++j) sum += softmax_weight(static_cast<double>(row.scores[j]), max, exp);
  for (int c = 0; c < value_dim; ++c) {
    double mixed = 0;
    for (int j = 0; j < keys; ++j)
      mixed += softmax_weight(static_cast<double>(row.scores[j]), max, exp) / (sum == 0 ? 1 : sum) *
               static_cast<double>(row.values[j][c]);
    result[c] = mixed;
  }
}

// A state as a node of the tree of merges.
struct Node {
  float max, sum;
  float out[value_dim];
  float result[value_dim];
  float scale_left, scale_right;  // 0 in a leaf
};
constexpr int node_floats = sizeof(Node) / sizeof(float);
static_assert(node_floats == 12);

inline void finish(Node& node) {
  const float normalizer = softmax_normalizer(SoftmaxState<float>{node.max, node.sum});
  for (int c = 0; c < value_dim; ++c) node.result[c] = node.out[c] * normalizer;
}

// Keys [begin, end) on their own, in tiles of `tile`.
inline Node leaf(const Row& row, int begin, int end, int tile) {
  AttentionState<float, value_dim> state;
  for (int first = begin; first < end; first += tile)
    fold_tile(row, first, first + tile < end ? first + tile : end, Rule::online, state);
  Node node = {};
  node.max = state.softmax.max;
  node.sum = state.softmax.sum;
  for (int c = 0; c < value_dim; ++c) node.out[c] = state.out[c];
  finish(node);
  return node;
}

inline Node merge(const Node& left, const Node& right) {
  const SoftmaxMerge<float> merged = softmax_merge(SoftmaxState<float>{left.max, left.sum},
                                                   SoftmaxState<float>{right.max, right.sum}, FixedExp());
  Node node = {};
  node.max = merged.state.max;
  node.sum = merged.state.sum;
  node.scale_left = merged.scale_a;
  node.scale_right = merged.scale_b;
  for (int c = 0; c < value_dim; ++c) node.out[c] = merged.output(left.out[c], right.out[c]);
  finish(node);
  return node;
}

}  // namespace page
}  // namespace runmax
