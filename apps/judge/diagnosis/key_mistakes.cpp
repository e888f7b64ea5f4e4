// Trivial answers, and mistakes in which keys a row takes: tiles left out or counted twice, masks,
// neighbours.
#include <algorithm>
#include <cmath>

#include "judge/diagnosis/hypothesis.hpp"

namespace runmax::diagnosis {
namespace {

using Predict = std::function<bool(const RowInputs&, Prediction&)>;

std::int64_t round_down(std::int64_t value, std::int64_t step) { return value / step * step; }

// The right softmax over other keys than the row's.
Predict over(std::function<KeyRange(const RowInputs&)> keys) {
  return [keys = std::move(keys)](const RowInputs& row, Prediction& prediction) {
    KeyRange taken = keys(row);
    taken.begin = std::clamp<std::int64_t>(taken.begin, 0, row.kv_len());
    taken.end = std::clamp<std::int64_t>(taken.end, taken.begin, row.kv_len());
    if (taken.begin == row.keys.begin && taken.end == row.keys.end) return false;
    mix(softmax_weights(row.scores, taken), row.v, row.value_dim(), prediction);
    return true;
  };
}

// The right softmax, in which key j counts times(j) times.
Predict counted(std::function<std::int64_t(const RowInputs&, std::int64_t)> times) {
  return [times = std::move(times)](const RowInputs& row, Prediction& prediction) {
    Weights weights = softmax_weights(row.scores, row.keys);
    bool changed = false;
    weights.divisor = 0;
    for (std::size_t j = 0; j < weights.weight.size(); ++j) {
      const std::int64_t count = times(row, row.keys.begin + static_cast<std::int64_t>(j));
      changed |= count != 1;
      weights.weight[j] *= static_cast<float>(count);
      weights.divisor += weights.weight[j];
    }
    if (!changed) return false;
    mix(weights, row.v, row.value_dim(), prediction);
    return true;
  };
}

// Keys [0, j <= i + offset].
KeyRange below_diagonal(const RowInputs& row, std::int64_t offset) { return {0, row.place.row + offset + 1}; }

std::int64_t own_offset(const RowInputs& row) {
  const Problem& p = row.call->problem();
  return diagonal_offset(p.causal, p.query_len, p.kv_len);
}

bool is_causal(const RowInputs& row) { return row.call->problem().causal != Causal::none; }

void add_tiles(Hypotheses& list, std::int64_t tile) {
  const std::string width = "key tile " + std::to_string(tile);
  // One tile of all keys is no tile, and a single key left out at a diagonal is the mask's business.
  const auto add = [&](std::string_view name, const std::string& variant, Predict predict) {
    list.push_back({find_mistake(name), variant.empty() ? width : width + ", " + variant,
                    [tile, predict = std::move(predict)](const RowInputs& row, Prediction& prediction) {
                      const bool of_mask = tile == 1 && is_causal(row);
                      return tile < row.kv_len() && !of_mask && predict(row, prediction);
                    }});
  };
  // A partial tile is the more usual victim, so it comes first: on lengths that the tile divides nothing is
  // wrong with it.
  add("last-tile-dropped", "a partial one only", over([tile](const RowInputs& row) {
        return KeyRange{row.keys.begin, round_down(row.keys.end, tile)};
      }));
  add("last-tile-dropped", "", over([tile](const RowInputs& row) {
        return KeyRange{row.keys.begin, round_down(row.keys.end - 1, tile)};
      }));
  add("last-tile-dropped", "that of the longest row", over([tile](const RowInputs& row) {
        return KeyRange{row.keys.begin, std::min(row.keys.end, round_down(row.kv_len() - 1, tile))};
      }));
  add("last-tile-doubled", "a partial one only", counted([tile](const RowInputs& row, std::int64_t j) {
        return row.keys.end % tile != 0 && j >= round_down(row.keys.end, tile) ? 2 : 1;
      }));
  add("last-tile-doubled", "", counted([tile](const RowInputs& row, std::int64_t j) {
        return j >= round_down(row.keys.end - 1, tile) ? 2 : 1;
      }));
  add("last-tile-doubled", "moved back to be full", counted([tile](const RowInputs& row, std::int64_t j) {
        return row.keys.end % tile != 0 && j >= row.keys.end - tile && j < round_down(row.keys.end, tile) ? 2
                                                                                                          : 1;
      }));
  add("last-tile-doubled", "the last key in the place of those beyond it",
      counted([tile](const RowInputs& row, std::int64_t j) {
        const std::int64_t beyond = (tile - row.keys.end % tile) % tile;
        return j == row.keys.end - 1 ? 1 + beyond : 1;
      }));
  add("first-tile-dropped", "", over([tile](const RowInputs& row) {
        return KeyRange{std::min(tile, row.keys.end), row.keys.end};
      }));
  add("padding-counted", "", [tile](const RowInputs& row, Prediction& prediction) {
    const std::int64_t padding = (tile - row.kv_len() % tile) % tile;
    if (padding == 0 || row.keys.begin == row.keys.end) return false;
    float max = 0;
    for (std::int64_t j = row.keys.begin; j < row.keys.end; ++j)
      max = std::max(max, row.scores[static_cast<std::size_t>(j)]);
    Weights weights{row.keys, {}, static_cast<float>(padding) * std::exp(-max)};
    for (std::int64_t j = row.keys.begin; j < row.keys.end; ++j) {
      weights.weight.push_back(std::exp(row.scores[static_cast<std::size_t>(j)] - max));
      weights.divisor += weights.weight.back();
    }
    mix(weights, row.v, row.value_dim(), prediction);
    return true;
  });
  add("causal-whole-tiles", "", [tile](const RowInputs& row, Prediction& prediction) {
    if (!is_causal(row)) return false;
    return over([tile](const RowInputs& r) {
      return KeyRange{0, r.keys.end == 0 ? 0 : round_down(r.keys.end + tile - 1, tile)};
    })(row, prediction);
  });
}

// Masked keys get the score 0 in the place of -inf.
bool masked_as_zero(const RowInputs& row, Prediction& prediction) {
  if (!is_causal(row) || row.keys.end == row.kv_len()) return false;
  std::vector<float> scores = row.scores;
  for (std::int64_t j = row.keys.end; j < row.kv_len(); ++j) scores[static_cast<std::size_t>(j)] = 0;
  mix(softmax_weights(scores, {0, row.kv_len()}), row.v, row.value_dim(), prediction);
  return true;
}

void add_masks(Hypotheses& list) {
  const auto add = [&](std::string_view name, const std::string& parameters, bool of_causal,
                       std::function<KeyRange(const RowInputs&)> keys) {
    Predict predict = over(std::move(keys));
    list.push_back({find_mistake(name), parameters,
                    [of_causal, predict = std::move(predict)](const RowInputs& row, Prediction& prediction) {
                      return is_causal(row) == of_causal && predict(row, prediction);
                    }});
  };
  add("causal-off-by-one", "one key too few", true,
      [](const RowInputs& row) { return below_diagonal(row, own_offset(row) - 1); });
  add("causal-off-by-one", "one key too many", true,
      [](const RowInputs& row) { return below_diagonal(row, own_offset(row) + 1); });
  add("causal-top-left", "", true, [](const RowInputs& row) { return below_diagonal(row, 0); });
  add("causal-missing", "", true, [](const RowInputs& row) { return KeyRange{0, row.kv_len()}; });
  add("causal-unasked", "", false,
      [](const RowInputs& row) { return below_diagonal(row, row.kv_len() - row.call->problem().query_len); });
  add("causal-unasked", "from the top left corner", false,
      [](const RowInputs& row) { return below_diagonal(row, 0); });
  list.push_back({find_mistake("masked-as-zero"), "", masked_as_zero});
}

}  // namespace

void add_trivial(Hypotheses& list) {
  const auto add = [&](std::string_view name, Predict predict) {
    list.push_back({find_mistake(name), "", std::move(predict)});
  };
  add("output-zero", [](const RowInputs& row, Prediction& prediction) {
    prediction.out.assign(static_cast<std::size_t>(row.value_dim()), 0.0f);
    return true;
  });
  const auto uniform = [](const RowInputs& row, KeyRange keys, Prediction& prediction) {
    if (keys.begin == keys.end) return false;
    const std::vector<float> scores(row.scores.size(), 0.0f);
    mix(softmax_weights(scores, keys), row.v, row.value_dim(), prediction);
    return true;
  };
  add("mean-of-values", [uniform](const RowInputs& row, Prediction& prediction) {
    return uniform(row, {0, row.kv_len()}, prediction);
  });
  add("uniform-weights",
      [uniform](const RowInputs& row, Prediction& prediction) { return uniform(row, row.keys, prediction); });
  add("best-key-value", [](const RowInputs& row, Prediction& prediction) {
    if (row.keys.begin == row.keys.end) return false;
    const auto first = row.scores.begin() + row.keys.begin;
    const auto best = std::max_element(first, row.scores.begin() + row.keys.end) - row.scores.begin();
    prediction.out.assign(row.v + best * row.value_dim(), row.v + (best + 1) * row.value_dim());
    return true;
  });
}

void add_keys(Hypotheses& list, const std::vector<std::int64_t>& tiles) {
  for (const std::int64_t tile : tiles) add_tiles(list, tile);
  add_masks(list);
  for (const std::int64_t shift : {1, -1})
    list.push_back({find_mistake("values-shifted"), shift > 0 ? "the one after it" : "the one before it",
                    [shift](const RowInputs& row, Prediction& prediction) {
                      if (row.keys.end - row.keys.begin < 2) return false;
                      const Weights right = softmax_weights(row.scores, row.keys);
                      Weights moved{{0, row.kv_len()},
                                    std::vector<float>(static_cast<std::size_t>(row.kv_len())),
                                    right.divisor};
                      for (std::int64_t j = row.keys.begin; j < row.keys.end; ++j) {
                        const std::int64_t to = std::clamp<std::int64_t>(j + shift, 0, row.kv_len() - 1);
                        moved.weight[static_cast<std::size_t>(to)] +=
                            right.weight[static_cast<std::size_t>(j - row.keys.begin)];
                      }
                      mix(moved, row.v, row.value_dim(), prediction);
                      return true;
                    }});
}

}  // namespace runmax::diagnosis
