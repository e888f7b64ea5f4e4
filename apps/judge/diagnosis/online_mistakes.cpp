// Mistakes in how a tile enters the running maximum, sum and output. Each is a set of weights: an answer that
// went wrong this way is still a sum of weighted values over a divisor.
#include <algorithm>
#include <cmath>

#include "judge/diagnosis/hypothesis.hpp"

namespace runmax::diagnosis {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// The maxima that a right kernel sees when it takes `width` keys at once.
struct Maxima {
  std::int64_t width = 1, first = 0;
  std::vector<float> own, running;  // of each tile

  Maxima(const RowInputs& row, std::int64_t tile_width) : width(tile_width), first(row.keys.begin) {
    float max = -infinity;
    for (std::int64_t j = row.keys.begin; j < row.keys.end; j += width) {
      float tile_max = -infinity;
      for (std::int64_t t = j; t < std::min(j + width, row.keys.end); ++t)
        tile_max = std::max(tile_max, row.scores[static_cast<std::size_t>(t)]);
      max = std::max(max, tile_max);
      own.push_back(tile_max);
      running.push_back(max);
    }
  }

  std::size_t tile(std::int64_t key) const { return static_cast<std::size_t>((key - first) / width); }
  float final() const { return running.back(); }
  float before(std::size_t tile, float at_start) const { return tile == 0 ? at_start : running[tile - 1]; }
};

// Weights of all visible keys by weight(key, its tile); divisor: their sum by counted(key, its tile).
template <class Weight, class Counted>
Weights weigh(const RowInputs& row, const Maxima& maxima, Weight weight, Counted counted) {
  Weights weights{row.keys, {}, 0};
  for (std::int64_t j = row.keys.begin; j < row.keys.end; ++j) {
    const std::size_t tile = maxima.tile(j);
    const float score = row.scores[static_cast<std::size_t>(j)];
    weights.weight.push_back(weight(score, tile));
    weights.divisor += counted(score, tile);
  }
  return weights;
}

class List {
 public:
  List(Hypotheses& list, std::int64_t tile) : list_(list), tile_(tile) {}

  std::int64_t tile() const { return tile_; }

  // make(row, maxima) gives the weights.
  template <class Make>
  void add(std::string_view name, const std::string& variant, Make make) {
    const std::int64_t tile = tile_;
    const Mistake* mistake = find_mistake(name);
    std::string parameters = "key tile " + std::to_string(tile);
    if (!variant.empty()) parameters += ", " + variant;
    list_.push_back({mistake, parameters, [tile, make](const RowInputs& row, Prediction& prediction) {
                       if (row.keys.begin == row.keys.end) return false;
                       mix(make(row, Maxima(row, tile)), row.v, row.value_dim(), prediction);
                       return true;
                     }});
  }

 private:
  Hypotheses& list_;
  std::int64_t tile_;
};

void add_rescales(List list) {
  list.add("output-not-rescaled", "", [](const RowInputs& row, const Maxima& m) {
    return weigh(
        row, m, [&](float s, std::size_t t) { return std::exp(s - m.running[t]); },
        [&](float s, std::size_t) { return std::exp(s - m.final()); });
  });
  list.add("sum-not-rescaled", "", [](const RowInputs& row, const Maxima& m) {
    return weigh(
        row, m, [&](float s, std::size_t) { return std::exp(s - m.final()); },
        [&](float s, std::size_t t) { return std::exp(s - m.running[t]); });
  });
  list.add("nothing-rescaled", "", [](const RowInputs& row, const Maxima& m) {
    const auto weight = [&](float s, std::size_t t) { return std::exp(s - m.running[t]); };
    return weigh(row, m, weight, weight);
  });
  list.add("rescale-inverted", "", [](const RowInputs& row, const Maxima& m) {
    const auto weight = [&](float s, std::size_t t) {
      return std::exp(s - m.running[t]) * std::exp(m.final() - m.running[t]);
    };
    return weigh(row, m, weight, weight);
  });
}

// The running sum after each tile.
std::vector<float> running_sums(const RowInputs& row, const Maxima& m) {
  std::vector<float> sums(m.own.size(), 0.0f);
  for (std::int64_t j = row.keys.begin; j < row.keys.end; ++j)
    sums[m.tile(j)] += std::exp(row.scores[static_cast<std::size_t>(j)] - m.running[m.tile(j)]);
  for (std::size_t t = 1; t < sums.size(); ++t)
    sums[t] += sums[t - 1] * std::exp(m.running[t - 1] - m.running[t]);
  return sums;
}

void add_normalisations(List list) {
  const auto divided_by_running_sum = [](const RowInputs& row, const Maxima& m) {
    const std::vector<float> sums = running_sums(row, m);
    Weights weights = weigh(
        row, m, [&](float s, std::size_t t) { return std::exp(s - m.final()) / sums[t]; },
        [&](float, std::size_t) { return 0.0f; });
    weights.divisor = sums.back();
    return weights;
  };
  list.add("normalised-per-tile", "each tile by the sum so far",
           [divided_by_running_sum](const RowInputs& row, const Maxima& m) {
             Weights weights = divided_by_running_sum(row, m);
             weights.divisor = 1;
             return weights;
           });
  list.add("normalised-per-tile", "each tile by the sum so far, and once more at the end",
           divided_by_running_sum);
  list.add("normalised-per-tile", "each tile by the sum so far, the output not rescaled",
           [](const RowInputs& row, const Maxima& m) {
             const std::vector<float> sums = running_sums(row, m);
             Weights weights = weigh(
                 row, m, [&](float s, std::size_t t) { return std::exp(s - m.running[t]) / sums[t]; },
                 [&](float, std::size_t) { return 0.0f; });
             weights.divisor = 1;
             return weights;
           });
  const auto output_divided = [](const RowInputs& row, const Maxima& m) {
    const std::vector<float> sums = running_sums(row, m);
    std::vector<float> factor(sums.size());
    float product = 1;
    for (std::size_t t = sums.size(); t-- > 0;) factor[t] = product /= sums[t];
    Weights weights = weigh(
        row, m, [&](float s, std::size_t t) { return std::exp(s - m.final()) * factor[t]; },
        [&](float, std::size_t) { return 0.0f; });
    weights.divisor = sums.back();
    return weights;
  };
  list.add("normalised-per-tile", "the whole output after each tile",
           [output_divided](const RowInputs& row, const Maxima& m) {
             Weights weights = output_divided(row, m);
             weights.divisor = 1;
             return weights;
           });
  list.add("normalised-per-tile", "the whole output after each tile, and once more at the end",
           output_divided);

  if (list.tile() == 1) return;
  const auto own_softmax = [](const RowInputs& row, const Maxima& m) {
    std::vector<float> sums(m.own.size(), 0.0f);
    for (std::int64_t j = row.keys.begin; j < row.keys.end; ++j)
      sums[m.tile(j)] += std::exp(row.scores[static_cast<std::size_t>(j)] - m.own[m.tile(j)]);
    Weights weights = weigh(
        row, m, [&](float s, std::size_t t) { return std::exp(s - m.own[t]) / sums[t]; },
        [&](float, std::size_t) { return 0.0f; });
    weights.divisor = 1;
    return weights;
  };
  list.add("normalised-per-tile", "a softmax of its own in each tile, added up", own_softmax);
  list.add("normalised-per-tile", "a softmax of its own in each tile, averaged",
           [own_softmax](const RowInputs& row, const Maxima& m) {
             Weights weights = own_softmax(row, m);
             weights.divisor = static_cast<float>(m.own.size());
             return weights;
           });
}

// The maximum that the first tile meets, where it is not -inf: the row's first score, or the tile's own
// maximum.
enum class Start { first_score, own_maximum };

float start(const RowInputs& row, const Maxima& m, Start from) {
  return from == Start::first_score ? row.scores[static_cast<std::size_t>(row.keys.begin)] : m.own[0];
}

void add_maxima(List list) {
  for (const Start from : {Start::own_maximum, Start::first_score}) {
    const std::string variant =
        from == Start::own_maximum ? "the first tile against its own" : "started at the first score";
    const auto stale = [from](const RowInputs& row, const Maxima& m) {
      const auto weight = [&](float s, std::size_t t) {
        return std::exp(s - m.before(t, start(row, m, from))) * std::exp(m.running[t] - m.final());
      };
      return weigh(row, m, weight, weight);
    };
    list.add("stale-maximum", variant, stale);
    list.add("stale-maximum", variant + ", the sum alone", [from](const RowInputs& row, const Maxima& m) {
      return weigh(
          row, m, [&](float s, std::size_t) { return std::exp(s - m.final()); },
          [&](float s, std::size_t t) {
            return std::exp(s - m.before(t, start(row, m, from))) * std::exp(m.running[t] - m.final());
          });
    });
    // Right by arithmetic, as the history moves along one tile late, until exp overflows.
    list.add("stale-maximum", variant + ", caught up with a tile later",
             [from](const RowInputs& row, const Maxima& m) {
               const auto weight = [&](float s, std::size_t t) {
                 const float before = m.before(t, start(row, m, from));
                 return std::exp(s - before) * std::exp(before - m.running[t]) *
                        std::exp(m.running[t] - m.final());
               };
               return weigh(row, m, weight, weight);
             });
  }

  if (list.tile() == 1) return;  // a key on its own weighs 1: that is no maximum at all
  list.add("own-maximum", "", [](const RowInputs& row, const Maxima& m) {
    const auto weight = [&](float s, std::size_t t) {
      return std::exp(s - m.own[t]) * std::exp(m.running[t] - m.final());
    };
    return weigh(row, m, weight, weight);
  });
  list.add("own-maximum", "the output alone", [](const RowInputs& row, const Maxima& m) {
    return weigh(
        row, m,
        [&](float s, std::size_t t) { return std::exp(s - m.own[t]) * std::exp(m.running[t] - m.final()); },
        [&](float s, std::size_t) { return std::exp(s - m.final()); });
  });
  list.add("own-maximum", "and nothing rescaled", [](const RowInputs& row, const Maxima& m) {
    const auto weight = [&](float s, std::size_t t) { return std::exp(s - m.own[t]); };
    return weigh(row, m, weight, weight);
  });
  // Right by arithmetic, as the factors telescope, until one of them overflows.
  list.add("own-maximum", "kept in the place of the running one", [](const RowInputs& row, const Maxima& m) {
    std::vector<float> factor(m.own.size(), 1.0f);
    for (std::size_t t = m.own.size() - 1; t-- > 0;)
      factor[t] = factor[t + 1] * std::exp(m.own[t] - m.own[t + 1]);
    const auto weight = [&](float s, std::size_t t) { return std::exp(s - m.own[t]) * factor[t]; };
    return weigh(row, m, weight, weight);
  });
}

// Mistakes that do not depend on tiles.
void add_untiled(Hypotheses& list) {
  const auto add = [&](std::string_view name, const std::string& parameters, auto make) {
    list.push_back({find_mistake(name), parameters, [make](const RowInputs& row, Prediction& prediction) {
                      if (row.keys.begin == row.keys.end) return false;
                      mix(make(row), row.v, row.value_dim(), prediction);
                      return true;
                    }});
  };
  const auto against = [](const RowInputs& row, float max) {
    Weights weights{row.keys, {}, 0};
    for (std::int64_t j = row.keys.begin; j < row.keys.end; ++j) {
      weights.weight.push_back(std::exp(row.scores[static_cast<std::size_t>(j)] - max));
      weights.divisor += weights.weight.back();
    }
    return weights;
  };
  const auto row_max = [](const RowInputs& row) {
    return Maxima(row, row.keys.end - row.keys.begin).final();
  };
  const auto guarded = [](Weights weights) {
    if (weights.divisor == 0) weights.divisor = 1;
    return weights;
  };

  add("no-maximum", "", [=](const RowInputs& row) { return against(row, 0); });
  add("no-maximum", "a sum of 0 guarded", [=](const RowInputs& row) { return guarded(against(row, 0)); });
  add("maximum-started-at-zero", "",
      [=](const RowInputs& row) { return against(row, std::max(0.0f, row_max(row))); });
  add("maximum-started-at-zero", "a sum of 0 guarded",
      [=](const RowInputs& row) { return guarded(against(row, std::max(0.0f, row_max(row)))); });
  add("division-missing", "", [=](const RowInputs& row) {
    Weights weights = against(row, row_max(row));
    weights.divisor = 1;
    return weights;
  });
  add("exponential-base-2", "", [=](const RowInputs& row) {
    Weights weights{row.keys, {}, 0};
    const float max = row_max(row);
    for (std::int64_t j = row.keys.begin; j < row.keys.end; ++j) {
      weights.weight.push_back(std::exp2(row.scores[static_cast<std::size_t>(j)] - max));
      weights.divisor += weights.weight.back();
    }
    return weights;
  });
}

}  // namespace

void add_online(Hypotheses& list, const std::vector<std::int64_t>& tiles) {
  for (const std::int64_t tile : tiles) {
    add_rescales(List(list, tile));
    add_normalisations(List(list, tile));
    add_maxima(List(list, tile));
  }
  add_untiled(list);
  // Weights against the maximum of no key at all, -inf: exp(inf), in the first tile of every row.
  list.push_back({find_mistake("stale-maximum"), "the first tile against -inf",
                  [](const RowInputs& row, Prediction& prediction) {
                    if (row.keys.begin == row.keys.end) return false;
                    prediction.out.assign(static_cast<std::size_t>(row.value_dim()),
                                          std::numeric_limits<float>::quiet_NaN());
                    prediction.always_nan = true;
                    return true;
                  }});
}

}  // namespace runmax::diagnosis
