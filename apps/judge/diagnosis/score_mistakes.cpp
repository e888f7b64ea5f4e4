// Mistakes in the factor of the scores.
#include <algorithm>
#include <cmath>

#include "judge/diagnosis/fit.hpp"
#include "judge/diagnosis/hypothesis.hpp"

namespace runmax::diagnosis {
namespace {

// The right softmax of scores that are `factor` times what they should be; factor(row) of 1: no mistake.
Hypothesis with_factor(std::string_view name, std::string parameters,
                       std::function<double(const RowInputs&)> factor) {
  return {find_mistake(name), std::move(parameters),
          [factor = std::move(factor)](const RowInputs& row, Prediction& prediction) {
            const auto f = static_cast<float>(factor(row));
            if (f == 1 || row.keys.begin == row.keys.end) return false;
            std::vector<float> scores = row.scores;
            for (float& score : scores) score *= f;
            mix(softmax_weights(scores, row.keys), row.v, row.value_dim(), prediction);
            return true;
          }};
}

std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

std::int64_t next_power_of_two(std::int64_t value) {
  std::int64_t power = 1;
  while (power < value) power *= 2;
  return power;
}

}  // namespace

void add_scores(Hypotheses& list) {
  list.push_back(with_factor("scale-missing", "", [](const RowInputs& row) {
    const double scale = row.call->scale();
    return scale == 0 ? 1 : 1 / scale;
  }));
  // A padded width is known by its rule, so that one rule explains calls of several head sizes.
  const auto padded = [&](const std::string& rule, std::function<std::int64_t(std::int64_t)> width) {
    list.push_back(
        with_factor("scale-of-padded-head-dim", rule, [width = std::move(width)](const RowInputs& row) {
          const double d = static_cast<double>(row.head_dim());
          return d == 0 ? 1 : std::sqrt(d / static_cast<double>(width(row.head_dim())));
        }));
  };
  padded("the next power of two", next_power_of_two);
  for (const std::int64_t step : {128, 64, 32, 16, 8})
    padded("a multiple of " + std::to_string(step), [step](std::int64_t d) { return round_up(d, step); });
  padded("one float of padding", [](std::int64_t d) { return d + 1; });
  list.push_back(with_factor("scale-squared", "", [](const RowInputs& row) { return row.call->scale(); }));
}

void add_fitted_scale(Hypotheses& list, const std::vector<Call>& calls) {
  const auto hypothesis = [](double factor) {
    char text[64];
    std::snprintf(text, sizeof text, "%.4g times the right one", factor);
    return with_factor("scale-wrong", text, [factor](const RowInputs&) { return factor; });
  };
  // A few rows are enough to find one number: a coarse search over factors, then a fine one.
  const Sample sample(calls, 6, 2);
  const auto explained = [&](double factor) {
    return factor == 1 ? 0 : sample.explained(hypothesis(factor));
  };
  double best = 1, best_explained = 0;
  const auto look = [&](double factor) {
    const double share = explained(factor);
    if (share > best_explained) {
      best = factor;
      best_explained = share;
    }
  };
  for (int step = -24; step <= 24; ++step) {
    look(std::exp2(step / 6.0));
    look(-std::exp2(step / 6.0));
  }
  if (best_explained == 0) return;
  for (double width = std::exp2(1 / 6.0); width > 1 + 1e-7; width = std::sqrt(width)) {
    const double centre = best;
    look(centre * width);
    look(centre / width);
  }
  list.push_back(hypothesis(best));
}

}  // namespace runmax::diagnosis
