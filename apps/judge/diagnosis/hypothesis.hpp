// A mistake with all its parameters chosen: it says what it would have written into any row.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "judge/diagnosis/call.hpp"

namespace runmax::diagnosis {

struct Prediction {
  std::vector<float> out;
  // No key is seen by the mistaken row: a kernel gives NaN (0/0) there or, guarded, 0. Either is meant.
  bool saw_nothing = false;
  // Predicts NaN whatever the data: fits any kernel that writes NaN, and so explains none of them.
  bool always_nan = false;
};

struct Hypothesis {
  const Mistake* mistake = nullptr;
  std::string parameters;
  // False: the mistake changes nothing in this call, so the row is what it should be.
  std::function<bool(const RowInputs&, Prediction&)> predict;
};

// Unnormalised weights of the keys [keys.begin, keys.end), and what their sum of values is divided by.
struct Weights {
  KeyRange keys;
  std::vector<float> weight;
  float divisor = 1;
};

// out = sum_j weight_j * v_j / divisor; `v` is (kv_len, value_dim).
void mix(const Weights& weights, const float* v, std::int64_t value_dim, Prediction& prediction);

// The right weights of a row for given scores and keys.
Weights softmax_weights(const std::vector<float>& scores, KeyRange keys);

// The key tile widths that are tried for a call: the one it declares first.
std::vector<std::int64_t> key_tiles(const std::vector<Call>& calls);

// Groups of hypotheses. `calls` are all calls that will be explained.
using Hypotheses = std::vector<Hypothesis>;
void add_trivial(Hypotheses& list);
void add_online(Hypotheses& list, const std::vector<std::int64_t>& tiles);
void add_keys(Hypotheses& list, const std::vector<std::int64_t>& tiles);
void add_scores(Hypotheses& list);
void add_layouts(Hypotheses& list);
void add_precision(Hypotheses& list, const std::vector<std::int64_t>& tiles);
// What is read off the wrong answers themselves: permutations, constants, factors. Only asked if nothing else
// fits.
void add_permutations(Hypotheses& list, const std::vector<Call>& calls);
void add_key_counts(Hypotheses& list, const std::vector<Call>& calls);
void add_fitted_scale(Hypotheses& list, const std::vector<Call>& calls);

}  // namespace runmax::diagnosis
