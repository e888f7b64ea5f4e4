// The gradient reference (C++17, standard library only): dQ, dK and dV in double, one query row at a time.
//
// It takes Q, K, V and dO alone and works out the row's weights and O again, over the whole row at once; it
// shares no code with the kernels. Memory is that of one row, and of dK and dV. Besides the gradients it
// returns what the gates measure errors with: for every element the sum of the sizes of what was added up to
// get it, and the same sum with each term times the S of its query row. docs/numerics.md derives both.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference.hpp"

namespace runmax {
namespace reference {

// A weight counts for no less than this in the magnitudes: below 2^-125 a kernel may lose it whole, and
// 2^-125 is less than 1e-5 of this.
constexpr double least_weight = 0x1p-108;

// dQ of one query row.
template <class Real>
struct RowGradient {
  std::vector<Real> dq;         // head_dim elements
  std::vector<Real> magnitude;  // |scale| * sum_j p_j (E_j + F) |k_jc|
  Real score_magnitude = 0;     // S of the row
  Real lse = 0;
  std::int64_t keys = 0;
  // dS of every key by the score that is exponentiated, which is the row's dBias, and p_j (E_j + F); for
  // kv_len keys, if GradientReference was asked for them.
  std::vector<Real> score_gradient, score_gradient_magnitude;
  Real sink = 0, sink_magnitude = 0;  // what the row gives to dSink: - p delta; p F
};

// dK and dV of one KV head: sums over the query rows that see a key, of all query heads of the group.
template <class Real>
struct KeyGradients {
  KeyGradients() = default;
  KeyGradients(std::int64_t kv_len, std::int64_t head_dim, std::int64_t value_dim) {
    for (std::vector<Real>* array : {&dk, &dk_magnitude, &dk_score_magnitude})
      array->assign(static_cast<std::size_t>(kv_len * head_dim), Real(0));
    for (std::vector<Real>* array : {&dv, &dv_magnitude, &dv_score_magnitude})
      array->assign(static_cast<std::size_t>(kv_len * value_dim), Real(0));
  }
  std::vector<Real> dk, dv;                                  // (kv_len, head_dim), (kv_len, value_dim)
  std::vector<Real> dk_magnitude, dv_magnitude;              // |scale| sum_i p_ij (E_ij + F_i) |q_ic|; sum_i
                                                             //   p_ij |dO_ic|
  std::vector<Real> dk_score_magnitude, dv_score_magnitude;  // the same, each term times S_i
};

// One KV head, its K and V converted to Real once.
template <class Real>
class GradientReference {
 public:
  // `head` gives K, V, their sizes and the scale; its Q is not used.
  template <class T>
  explicit GradientReference(const Head<T>& head)
      : head_dim_(static_cast<std::size_t>(head.head_dim)),
        value_dim_(static_cast<std::size_t>(head.value_dim)),
        kv_len_(static_cast<std::size_t>(head.kv_len)),
        scale_(static_cast<Real>(head.scale)) {
    for (std::int64_t j = 0; j < head.kv_len; ++j) {
      for (std::int64_t c = 0; c < head.head_dim; ++c) k_.push_back(static_cast<Real>(head.k(j, c)));
      for (std::int64_t c = 0; c < head.value_dim; ++c) v_.push_back(static_cast<Real>(head.v(j, c)));
    }
  }

  // O is saved in a type whose numbers lie no closer to one another than near this one: below it, O is known
  // no better than at it.
  void set_least_output(double least) { least_output_ = static_cast<Real>(least); }

  // From now on rows have their score_gradient too.
  void keep_score_gradients() { keep_score_gradients_ = true; }

  // The query row i of `head` with the gradient `dout` (query_len, value_dim) of its output, over the keys
  // that it sees by causality and window. What it gives to dK and dV is added to `of_keys`, if that is
  // wanted.
  template <class T>
  void row(const Head<T>& head, const Matrix<T>& dout, std::int64_t i, Keys keys, RowGradient<Real>& row,
           KeyGradients<Real>* of_keys, const ScoreOptions& options = {}) {
    using std::abs;
    using std::exp;
    using std::log;
    const Real infinity = std::numeric_limits<Real>::infinity();
    row.dq.assign(head_dim_, Real(0));
    row.magnitude.assign(head_dim_, Real(0));
    row.score_gradient.assign(keep_score_gradients_ ? kv_len_ : 0, Real(0));
    row.score_gradient_magnitude.assign(keep_score_gradients_ ? kv_len_ : 0, Real(0));
    row.sink = row.sink_magnitude = Real(0);
    row.score_magnitude = Real(0);
    row.lse = -infinity;
    row.keys = 0;
    const auto first = static_cast<std::size_t>(keys.begin),
               count = static_cast<std::size_t>(keys.end > keys.begin ? keys.end - keys.begin : 0);
    convert(head.q, i, head_dim_, q_);
    convert(dout, i, value_dim_, dout_);

    // Scores, the largest of them, and S. A NaN score is no candidate; it comes back in the sum.
    weight_.assign(count, Real(0));
    cap_slope_.assign(count, Real(1));
    visible_.assign(count, 0);
    std::vector<Real> size(count);
    Real max = -infinity;
    for (std::size_t j = 0; j < count; ++j) {
      const std::int64_t key = keys.begin + static_cast<std::int64_t>(j);
      if (!options.sees(i, key)) continue;
      visible_[j] = 1;
      ++row.keys;
      const Score score = score_of(i, key, options);
      size[j] = score.size;
      cap_slope_[j] = score.cap_slope;
      weight_[j] = score.value;
      if (score.value > max) max = score.value;
    }
    for (const double sink : options.sink)
      if (static_cast<Real>(sink) > max) max = static_cast<Real>(sink);
    for (std::size_t j = 0; j < count; ++j) {
      const bool counts =
          !options.change_scores() || weight_[j] + size[j] * Real(0x1p-21) >= max - negligible_distance<Real>;
      if (visible_[j] && counts && size[j] > row.score_magnitude && size[j] < infinity)
        row.score_magnitude = size[j];
    }
    // An error of the score is one of the softcap's derivative too, by at most 2 / softcap of it.
    if (options.softcap != 0) row.score_magnitude *= 1 + 2 / static_cast<Real>(options.softcap);
    Real sink_weight = 0;
    for (const double sink : options.sink) {
      const Real size_of_sink = static_cast<Real>(std::abs(sink));
      if (size_of_sink > row.score_magnitude && size_of_sink < infinity &&
          static_cast<Real>(sink) >= max - negligible_distance<Real>)
        row.score_magnitude = size_of_sink;
      sink_weight = exp(static_cast<Real>(sink) - (max == -infinity ? Real(0) : max));
    }
    Real sum = sink_weight;
    for (std::size_t j = 0; j < count; ++j) {
      if (!visible_[j]) continue;
      weight_[j] = exp(weight_[j] - (max == -infinity ? Real(0) : max));
      sum += weight_[j];
    }
    // A row whose scores are all -inf is like one that sees no key.
    if (sum == Real(0)) return;
    row.lse = max + log(sum);
    // What dropout makes of a weight: 0, or kept_factor times as much.
    const auto kept = [&](std::size_t j) {
      if (!options.keeps) return Real(1);
      return options.keeps(i, keys.begin + static_cast<std::int64_t>(j))
                 ? static_cast<Real>(options.kept_factor)
                 : Real(0);
    };
    out_.assign(value_dim_, Real(0));
    out_magnitude_.assign(value_dim_, Real(0));
    for (std::size_t j = 0; j < count; ++j) {
      if (!visible_[j]) continue;
      weight_[j] /= sum;
      const Real weight = weight_[j] * kept(j);
      const Real* value = v_.data() + (first + j) * value_dim_;
      for (std::size_t c = 0; c < value_dim_; ++c) {
        const Real term = weight * value[c];
        out_[c] += term;
        out_magnitude_[c] += abs(term);
      }
    }
    // delta, and F: what it is as uncertain as, for O is known to a part of A only.
    Real delta = 0, delta_size = 0;
    for (std::size_t c = 0; c < value_dim_; ++c) {
      delta += dout_[c] * out_[c];
      delta_size += abs(dout_[c]) * (out_magnitude_[c] + least_output_);
    }
    row.sink = -(sink_weight / sum * delta);
    row.sink_magnitude = sink_weight / sum * delta_size;

    for (std::size_t j = 0; j < count; ++j) {
      if (!visible_[j]) continue;
      const Real* key = k_.data() + (first + j) * head_dim_;
      const Dot dp = dot_of(dout_.data(), v_.data() + (first + j) * value_dim_, value_dim_);
      const Real weight = weight_[j], factor = kept(j);
      const Real least = weight < Real(least_weight) ? Real(least_weight) : weight;
      const Real of_score = weight * (factor * dp.sum - delta);
      const Real of_score_size = least * (factor * dp.size + delta_size);
      if (keep_score_gradients_) {
        row.score_gradient[first + j] = of_score;
        row.score_gradient_magnitude[first + j] = of_score_size;
      }
      const Real gradient = scale_ * (of_score * cap_slope_[j]);
      // Below 2^-100 a kernel may lose the softcap's derivative whole.
      const Real slope_size = options.softcap == 0 ? Real(1) : cap_slope_[j] + Real(0x1p-100);
      const Real size_of_gradient = abs(scale_) * (of_score_size * slope_size);
      for (std::size_t c = 0; c < head_dim_; ++c) {
        row.dq[c] += gradient * key[c];
        row.magnitude[c] += size_of_gradient * abs(key[c]);
      }
      if (!of_keys) continue;
      const Real s = row.score_magnitude;
      add(gradient, size_of_gradient, s, q_, (first + j) * head_dim_, of_keys->dk, of_keys->dk_magnitude,
          of_keys->dk_score_magnitude);
      add(weight * factor, least * factor, s, dout_, (first + j) * value_dim_, of_keys->dv,
          of_keys->dv_magnitude, of_keys->dv_score_magnitude);
    }
  }

  // What row i gives to dK and dV of the keys `sample` alone, by the saved LSE and O of its row instead of
  // the whole row: O(1) work a pair, for lengths at which a whole reference is out of reach. `of_sample` has
  // one entry for each key of the sample. S is at least |LSE| here, and else that of the sampled keys.
  template <class T>
  void saved_row(const Head<T>& head, const Matrix<T>& dout, const Matrix<T>& out, std::int64_t i, Keys keys,
                 Real lse, const std::vector<std::int64_t>& sample, KeyGradients<Real>& of_sample,
                 const ScoreOptions& options = {}) {
    using std::abs;
    using std::exp;
    const Real infinity = std::numeric_limits<Real>::infinity();
    if (keys.begin >= keys.end || lse == -infinity) return;
    convert(head.q, i, head_dim_, q_);
    convert(dout, i, value_dim_, dout_);
    convert(out, i, value_dim_, out_);
    Real delta = 0, delta_size = 0, s = abs(lse) < infinity ? abs(lse) : Real(0);
    for (std::size_t c = 0; c < value_dim_; ++c) {
      delta += dout_[c] * out_[c];
      delta_size += abs(dout_[c]) * (abs(out_[c]) + least_output_);
    }
    weight_.assign(sample.size(), Real(0));
    cap_slope_.assign(sample.size(), Real(1));
    const auto visible = [&](std::int64_t j) {
      return j >= keys.begin && j < keys.end && options.sees(i, j);
    };
    for (std::size_t n = 0; n < sample.size(); ++n) {
      if (!visible(sample[n])) continue;
      const Score score = score_of(i, sample[n], options);
      weight_[n] = exp(score.value - lse);
      cap_slope_[n] = score.cap_slope;
      if (score.size > s && score.size < infinity) s = score.size;
    }
    if (options.softcap != 0) s *= 1 + 2 / static_cast<Real>(options.softcap);
    for (std::size_t n = 0; n < sample.size(); ++n) {
      const std::int64_t j = sample[n];
      if (!visible(j)) continue;
      const Dot dp = dot_of(dout_.data(), v_.data() + static_cast<std::size_t>(j) * value_dim_, value_dim_);
      const Real weight = weight_[n];
      const Real kept = !options.keeps        ? Real(1)
                        : options.keeps(i, j) ? static_cast<Real>(options.kept_factor)
                                              : Real(0);
      const Real least = weight < Real(least_weight) ? Real(least_weight) : weight;
      add(scale_ * cap_slope_[n] * (weight * (kept * dp.sum - delta)),
          abs(scale_) * cap_slope_[n] * (least * (kept * dp.size + delta_size)), s, q_, n * head_dim_,
          of_sample.dk, of_sample.dk_magnitude, of_sample.dk_score_magnitude);
      add(kept * weight, kept * least, s, dout_, n * value_dim_, of_sample.dv, of_sample.dv_magnitude,
          of_sample.dv_score_magnitude);
    }
  }

 private:
  struct Dot {
    Real sum, size;
  };

  // Eight sums side by side, so that a plain loop is a vector loop.
  static Dot dot_of(const Real* a, const Real* b, std::size_t count) {
    using std::abs;
    constexpr std::size_t sums = 8;
    Real sum[sums] = {}, size[sums] = {};
    std::size_t c = 0;
    for (; c + sums <= count; c += sums)
      for (std::size_t s = 0; s < sums; ++s) {
        const Real product = a[c + s] * b[c + s];
        sum[s] += product;
        size[s] += abs(product);
      }
    for (; c < count; ++c) {
      const Real product = a[c] * b[c];
      sum[c % sums] += product;
      size[c % sums] += abs(product);
    }
    Dot dot{Real(0), Real(0)};
    for (std::size_t s = 0; s < sums; ++s) {
      dot.sum += sum[s];
      dot.size += size[s];
    }
    return dot;
  }

  // The score that is exponentiated, the size of what it was added up from, and the softcap's derivative.
  struct Score {
    Real value, size, cap_slope;
  };

  // Of the converted query row i and a visible key.
  Score score_of(std::int64_t i, std::int64_t j, const ScoreOptions& options) const {
    using std::abs;
    const Dot dot = dot_of(q_.data(), k_.data() + static_cast<std::size_t>(j) * head_dim_, head_dim_);
    Score score{scale_ * dot.sum, abs(scale_) * dot.size, Real(1)};
    if (options.softcap != 0) {
      const Real cap = static_cast<Real>(options.softcap);
      const Real ratio = score.value / cap, cosh = std::cosh(ratio);
      score.value = cap * std::tanh(ratio);
      score.cap_slope = Real(1) / (cosh * cosh);
    }
    if (options.bias) {
      const Real bias = static_cast<Real>(options.bias(i, j));
      score.value += bias;
      score.size += abs(bias);
    }
    if (options.slope != 0) {
      const Real penalty =
          static_cast<Real>(options.slope) * static_cast<Real>(abs(i + options.diagonal_offset - j));
      score.value -= penalty;
      score.size += abs(penalty);
    }
    return score;
  }

  template <class T>
  static void convert(const Matrix<T>& from, std::int64_t row, std::size_t count, std::vector<Real>& to) {
    to.resize(count);
    for (std::size_t c = 0; c < count; ++c)
      to[c] = static_cast<Real>(from(row, static_cast<std::int64_t>(c)));
  }

  // sum[at + c] += factor * x[c], and its sizes.
  static void add(Real factor, Real size, Real score_magnitude, const std::vector<Real>& x, std::size_t at,
                  std::vector<Real>& sum, std::vector<Real>& magnitude,
                  std::vector<Real>& weighed_magnitude) {
    using std::abs;
    Real* to_sum = sum.data() + at;
    Real* to_magnitude = magnitude.data() + at;
    Real* to_weighed = weighed_magnitude.data() + at;
    for (std::size_t c = 0; c < x.size(); ++c) {
      const Real term = size * abs(x[c]);
      to_sum[c] += factor * x[c];
      to_magnitude[c] += term;
      to_weighed[c] += term * score_magnitude;
    }
  }

  std::size_t head_dim_, value_dim_, kv_len_;
  Real scale_;
  Real least_output_ = 0;
  bool keep_score_gradients_ = false;
  std::vector<Real> k_, v_;
  std::vector<Real> q_, dout_, weight_, cap_slope_, out_, out_magnitude_;
  std::vector<char> visible_;
};

}  // namespace reference
}  // namespace runmax
