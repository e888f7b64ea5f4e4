// Keys that weigh more or less than they should, read off the wrong answer itself.
//
// If the weights of a row are p_j * f_j in the place of p_j, with the same f for every row, then
//   sum_j f_j * p_j * (v_jc - o_c) = 0
// for each element o_c of the wrong answer: one linear equation an element, and one unknown a key. Least
// squares, drawn to f = 1 where nothing is known, and rounded to whole numbers: how often each key was
// counted.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "judge/diagnosis/hypothesis.hpp"
#include "judge/diagnosis/pattern.hpp"

namespace runmax::diagnosis {
namespace {

constexpr std::int64_t most_keys = 400;
constexpr double equations_a_key = 4;
constexpr double pull_to_one = 1e-10;  // of the mean of the diagonal

// Solves (g + pull) x = b for a symmetric g (n, n), in place of b; g is overwritten by its Cholesky factor.
bool solve(std::vector<double>& g, std::vector<double>& b, double pull) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    double diagonal = g[j * n + j] + pull;
    for (std::size_t t = 0; t < j; ++t) diagonal -= g[j * n + t] * g[j * n + t];
    if (!(diagonal > 0)) return false;
    g[j * n + j] = std::sqrt(diagonal);
    for (std::size_t i = j + 1; i < n; ++i) {
      double sum = g[i * n + j];
      for (std::size_t t = 0; t < j; ++t) sum -= g[i * n + t] * g[j * n + t];
      g[i * n + j] = sum / g[j * n + j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t t = 0; t < i; ++t) b[i] -= g[i * n + t] * b[t];
    b[i] /= g[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t t = i + 1; t < n; ++t) b[i] -= g[t * n + i] * b[t];
    b[i] /= g[i * n + i];
  }
  return true;
}

// How often each key was counted; empty if that explains nothing or cannot be known.
std::vector<float> count_of_keys(const Call& call) {
  const std::int64_t keys = call.problem().kv_len, dims = call.value_dim();
  if (keys > most_keys || keys < 2 || !call.anything_wrong()) return {};
  const std::vector<std::int64_t> rows = call.sample(96, 0);
  const auto equations = static_cast<std::int64_t>(rows.size()) * dims;
  if (equations < 2 * keys) return {};
  const auto step =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(equations) /
                                                          (equations_a_key * static_cast<double>(keys))));

  const auto n = static_cast<std::size_t>(keys);
  std::vector<double> g(n * n, 0.0), right_side(n, 0.0), equation(n);
  std::int64_t at = 0;
  for (const std::int64_t r : rows) {
    const RowInputs row = row_inputs(call, r);
    const Weights right = softmax_weights(row.scores, row.keys);
    for (std::int64_t c = 0; c < dims; ++c) {
      if (!std::isfinite(call.out(r)[c])) return {};
      if (++at % step != 0) continue;
      std::fill(equation.begin(), equation.end(), 0.0);
      double all = 0;
      for (std::int64_t j = row.keys.begin; j < row.keys.end; ++j) {
        const double weight =
            static_cast<double>(right.weight[static_cast<std::size_t>(j - row.keys.begin)]) /
            static_cast<double>(right.divisor);
        const double value = static_cast<double>(row.v[j * dims + c]) - static_cast<double>(call.out(r)[c]);
        all += equation[static_cast<std::size_t>(j)] = weight * value / call.error_scale(r, c);
      }
      for (std::size_t i = 0; i < n; ++i) {
        if (equation[i] == 0) continue;
        for (std::size_t j = 0; j <= i; ++j) g[i * n + j] += equation[i] * equation[j];
        right_side[i] -= equation[i] * all;
      }
    }
  }
  double trace = 0;
  for (std::size_t i = 0; i < n; ++i) trace += g[i * n + i];
  if (!solve(g, right_side, pull_to_one * trace / static_cast<double>(n))) return {};

  std::vector<float> factor(n);
  for (std::size_t j = 0; j < n; ++j) factor[j] = static_cast<float>(1 + right_side[j]);
  // Most keys are right, whatever the scale of the solution.
  std::vector<float> sorted = factor;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(n / 2), sorted.end());
  const float usual = sorted[n / 2];
  if (!(usual > 0.1f)) return {};
  for (float& one : factor) one = std::max(0.0f, std::round(one / usual));
  return factor;
}

std::string keys_text(const std::vector<float>& factor, bool (*is_meant)(float)) {
  std::vector<std::int64_t> keys;
  for (std::size_t j = 0; j < factor.size(); ++j)
    if (is_meant(factor[j])) keys.push_back(static_cast<std::int64_t>(j));
  return keys.empty() ? "" : indices_text(keys, static_cast<std::int64_t>(factor.size()));
}

}  // namespace

void add_key_counts(Hypotheses& list, const std::vector<Call>& calls) {
  const auto counts = std::make_shared<std::map<const Call*, std::vector<float>>>();
  std::string left_out, twice;
  for (const Call& call : calls) {
    std::vector<float> factor = count_of_keys(call);
    if (factor.empty()) continue;
    if (left_out.empty()) left_out = keys_text(factor, [](float times) { return times == 0; });
    if (twice.empty()) twice = keys_text(factor, [](float times) { return times > 1; });
    (*counts)[&call] = std::move(factor);
  }
  if (left_out.empty() == twice.empty()) return;  // both: no one mistake
  list.push_back({find_mistake(twice.empty() ? "keys-left-out" : "keys-counted-twice"),
                  "keys " + (twice.empty() ? left_out : twice),
                  [counts](const RowInputs& row, Prediction& prediction) {
                    const auto known = counts->find(row.call);
                    if (known == counts->end() || row.keys.begin == row.keys.end) return false;
                    Weights weights = softmax_weights(row.scores, row.keys);
                    weights.divisor = 0;
                    for (std::size_t j = 0; j < weights.weight.size(); ++j) {
                      weights.weight[j] *= known->second[static_cast<std::size_t>(row.keys.begin) + j];
                      weights.divisor += weights.weight[j];
                    }
                    mix(weights, row.v, row.value_dim(), prediction);
                    return true;
                  }});
}

}  // namespace runmax::diagnosis
