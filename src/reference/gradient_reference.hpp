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
        scale_(static_cast<Real>(head.scale)) {
    for (std::int64_t j = 0; j < head.kv_len; ++j) {
      for (std::int64_t c = 0; c < head.head_dim; ++c) k_.push_back(static_cast<Real>(head.k(j, c)));
      for (std::int64_t c = 0; c < head.value_dim; ++c) v_.push_back(static_cast<Real>(head.v(j, c)));
    }
  }

  // The query row i of `head` with the gradient `dout` (query_len, value_dim) of its output, over the keys
  // that it sees. What it gives to dK and dV is added to `of_keys`, if that is wanted.
  template <class T>
  void row(const Head<T>& head, const Matrix<T>& dout, std::int64_t i, Keys keys, RowGradient<Real>& row,
           KeyGradients<Real>* of_keys) {
    using std::abs;
    using std::exp;
    using std::log;
    const Real infinity = std::numeric_limits<Real>::infinity();
    row.dq.assign(head_dim_, Real(0));
    row.magnitude.assign(head_dim_, Real(0));
    row.score_magnitude = Real(0);
    row.lse = -infinity;
    row.keys = keys.end > keys.begin ? keys.end - keys.begin : 0;
    if (row.keys == 0) return;
    const auto first = static_cast<std::size_t>(keys.begin), count = static_cast<std::size_t>(row.keys);
    convert(head.q, i, head_dim_, q_);
    convert(dout, i, value_dim_, dout_);

    // Scores, the largest of them, and S. A NaN score is no candidate; it comes back in the sum.
    weight_.resize(count);
    Real max = -infinity;
    for (std::size_t j = 0; j < count; ++j) {
      const Dot dot = dot_of(q_.data(), k_.data() + (first + j) * head_dim_, head_dim_);
      weight_[j] = scale_ * dot.sum;
      if (weight_[j] > max) max = weight_[j];
      const Real size = abs(scale_) * dot.size;
      if (size > row.score_magnitude && size < infinity) row.score_magnitude = size;
    }
    Real sum = 0;
    for (std::size_t j = 0; j < count; ++j) {
      weight_[j] = exp(weight_[j] - (max == -infinity ? Real(0) : max));
      sum += weight_[j];
    }
    // A row whose scores are all -inf is like one that sees no key.
    if (sum == Real(0)) return;
    row.lse = max + log(sum);
    out_.assign(value_dim_, Real(0));
    out_magnitude_.assign(value_dim_, Real(0));
    for (std::size_t j = 0; j < count; ++j) {
      weight_[j] /= sum;
      const Real* value = v_.data() + (first + j) * value_dim_;
      for (std::size_t c = 0; c < value_dim_; ++c) {
        const Real term = weight_[j] * value[c];
        out_[c] += term;
        out_magnitude_[c] += abs(term);
      }
    }
    // delta, and F: what it is as uncertain as, for O is known to a part of A only.
    Real delta = 0, delta_size = 0;
    for (std::size_t c = 0; c < value_dim_; ++c) {
      delta += dout_[c] * out_[c];
      delta_size += abs(dout_[c]) * out_magnitude_[c];
    }

    for (std::size_t j = 0; j < count; ++j) {
      const Real* key = k_.data() + (first + j) * head_dim_;
      const Dot dp = dot_of(dout_.data(), v_.data() + (first + j) * value_dim_, value_dim_);
      const Real weight = weight_[j];
      const Real least = weight < Real(least_weight) ? Real(least_weight) : weight;
      const Real gradient = scale_ * (weight * (dp.sum - delta));
      const Real size = abs(scale_) * (least * (dp.size + delta_size));
      for (std::size_t c = 0; c < head_dim_; ++c) {
        row.dq[c] += gradient * key[c];
        row.magnitude[c] += size * abs(key[c]);
      }
      if (!of_keys) continue;
      const Real s = row.score_magnitude;
      add(gradient, size, s, q_, (first + j) * head_dim_, of_keys->dk, of_keys->dk_magnitude,
          of_keys->dk_score_magnitude);
      add(weight, least, s, dout_, (first + j) * value_dim_, of_keys->dv, of_keys->dv_magnitude,
          of_keys->dv_score_magnitude);
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

  std::size_t head_dim_, value_dim_;
  Real scale_;
  std::vector<Real> k_, v_;
  std::vector<Real> q_, dout_, weight_, out_, out_magnitude_;
};

}  // namespace reference
}  // namespace runmax
