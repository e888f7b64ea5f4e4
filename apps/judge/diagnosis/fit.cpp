#include "judge/diagnosis/fit.hpp"

#include <algorithm>
#include <cmath>

namespace runmax::diagnosis {
namespace {

// Below the score that names a mistake: NaN in every row is what many mistakes come to.
constexpr double share_of_always_nan = 0.75;

// A fit of numbers leaves at most this share of an element's error, where kinds are compared one by one.
constexpr double element_leftover = 1e-3;

bool all_nan_or_zero(const Call& call, std::int64_t r) {
  bool nan = true, zero = true;
  for (std::int64_t c = 0; c < call.value_dim(); ++c) {
    nan = nan && std::isnan(call.out(r)[c]);
    zero = zero && call.out(r)[c] == 0;
  }
  return nan || zero;
}

// What the logarithm of a row becomes by a mistake.
double mistaken_lse(std::string_view mistake, const RowInputs& row, double right) {
  if (mistake == "lse-base-2") return right * 1.4426950408889634;
  double max = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = row.keys.begin; j < row.keys.end; ++j)
    max = std::max(max, static_cast<double>(row.scores[static_cast<std::size_t>(j)]));
  return std::isfinite(max) ? right - max : right;
}

}  // namespace

double row_explained(const Call& call, std::int64_t r, const float* answer) {
  double error = 0, leftover = 0;
  std::int64_t wrong = 0, matched = 0;
  for (std::int64_t c = 0; c < call.value_dim(); ++c) {
    if (!call.suspect(c)) continue;
    const double scale = call.error_scale(r, c);
    const double e = distance(call.out(r)[c], call.want(r).out[static_cast<std::size_t>(c)], scale);
    const double l = distance(call.out(r)[c], answer[c], scale);
    error += e * e;
    // What is within the bound is rounding, and no shortcoming of the mistake.
    const double beyond = std::max(0.0, l - call.tolerance(r));
    leftover += beyond * beyond;
    if (call.gate_fraction(r, c, call.out(r)[c]) > 1) {
      ++wrong;
      if (l <= (std::isfinite(e) ? element_leftover * e : call.tolerance(r))) ++matched;
    }
  }
  if (std::isfinite(error)) return error > 0 ? std::max(0.0, 1 - std::sqrt(leftover / error)) : 0;
  return wrong > 0 ? static_cast<double>(matched) / static_cast<double>(wrong) : 0;
}

Sample::Sample(const std::vector<Call>& calls, std::int64_t wrong_limit, std::int64_t right_limit) {
  for (const Call& call : calls) {
    CallRows rows;
    for (const std::int64_t r : call.sample(wrong_limit, right_limit))
      (call.wrong(r) ? rows.wrong : rows.right).push_back(row_inputs(call, r));
    calls_.push_back(std::move(rows));
  }
}

double Sample::explained(const Hypothesis& hypothesis) const {
  double explained = 0, weight = 0, without_nan = 1;
  for (const CallRows& rows : calls_) {
    double found = 0, contradicted = 0;
    for (const RowInputs& row : rows.wrong) {
      Prediction prediction;
      if (!hypothesis.predict(row, prediction)) continue;
      const std::int64_t r = row.call->row_at(row.place);
      if (prediction.always_nan) without_nan = share_of_always_nan;
      if (prediction.saw_nothing && all_nan_or_zero(*row.call, r))
        found += 1;
      else
        found += row_explained(*row.call, r, prediction.out.data());
    }
    for (const RowInputs& row : rows.right) {
      Prediction prediction;
      if (!hypothesis.predict(row, prediction) || prediction.saw_nothing) continue;
      if (row.call->contradicts(row.call->row_at(row.place), prediction.out.data())) contradicted += 1;
    }
    if (!rows.wrong.empty()) {
      explained += found / (static_cast<double>(rows.wrong.size()) + contradicted);
      weight += 1;
    } else if (!rows.right.empty()) {
      weight += contradicted / static_cast<double>(rows.right.size());
    }
  }
  return weight > 0 ? without_nan * explained / weight : 0;
}

double Sample::lse_explained(std::string_view mistake) const {
  double found = 0, counted = 0;
  for (const CallRows& rows : calls_)
    for (const std::vector<RowInputs>* part : {&rows.wrong, &rows.right})
      for (const RowInputs& row : *part) {
        const std::int64_t r = row.call->row_at(row.place);
        if (!row.call->evidence().lse) continue;
        const double got = row.call->evidence().lse[r], right = row.call->want(r).lse;
        const double mistaken = mistaken_lse(mistake, row, right);
        const double error = distance(got, right, 1), leftover = distance(got, mistaken, 1);
        if (row.call->lse_wrong(r)) {
          counted += 1;
          if (std::isfinite(error))
            found += std::max(0.0, 1 - std::max(0.0, leftover - 1e-5) / error);
          else
            found += leftover == 0 ? 1 : 0;
        } else if (distance(mistaken, right, 1) > 1e-3) {
          counted += 1;
        }
      }
  return counted > 0 ? found / counted : 0;
}

}  // namespace runmax::diagnosis
