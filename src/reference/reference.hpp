// The reference (C++17, standard library only): exact attention in double, one row of scores at a time.
//
// It shares no code with the kernels, not even online_softmax.hpp: it takes the maximum over the whole row,
// then the weights, then the sums. Besides O and LSE it returns what the gates measure errors with: A, the
// sum of p_j * |v_jd| of every output element, and S, the size of what a score of the row was added up from,
// without options the largest |scale| * sum_d |q_d * k_d|. docs/numerics.md says what it does with infinities
// and NaN.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

namespace runmax {
namespace reference {

// A matrix of (rows, channels); strides in elements, any sign.
template <class T>
struct Matrix {
  const T* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t channel_stride = 1;

  const T& operator()(std::int64_t row, std::int64_t channel) const {
    return data[row * row_stride + channel * channel_stride];
  }
};

// One query head and its keys: q (query_len, head_dim), k (kv_len, head_dim), v (kv_len, value_dim).
template <class T>
struct Head {
  Matrix<T> q, k, v;
  std::int64_t query_len = 0, kv_len = 0, head_dim = 0, value_dim = 0;
  double scale = 1.0;
};

// The keys that a row sees: [begin, end).
struct Keys {
  std::int64_t begin = 0, end = 0;
};

// Every row sees every key.
struct AllKeys {
  std::int64_t kv_len = 0;
  Keys operator()(std::int64_t) const { return {0, kv_len}; }
};

// What the options of a problem do to one head. A function that is empty, a softcap or a slope of 0: off.
struct ScoreOptions {
  double softcap = 0;  // c * tanh(score / c) takes the score's place
  // Whether query i may attend to key j, what is added to the score (-inf: it may not attend), and whether
  // dropout keeps the weight.
  std::function<bool(std::int64_t i, std::int64_t j)> mask = {};
  std::function<double(std::int64_t i, std::int64_t j)> bias = {};
  std::function<bool(std::int64_t i, std::int64_t j)> keeps = {};
  double kept_factor = 1;  // a kept weight is multiplied by this, after the sum
  double slope = 0;        // ALiBi: - slope * |i + diagonal_offset - j|
  std::int64_t diagonal_offset = 0;
  std::vector<double> sink = {};  // one more score without a value, or none

  bool change_scores() const { return softcap != 0 || mask || bias || slope != 0 || !sink.empty(); }
  bool sees(std::int64_t i, std::int64_t j) const {
    return (!mask || mask(i, j)) && !(bias && bias(i, j) == -std::numeric_limits<double>::infinity());
  }
};

// A score this far below the largest has a weight that the answer's type does not hold, whatever its
// rounding: under 2^-150 in FP32, and under 2^-1075 in double, which long double judges. It is no part of S.
template <class Real>
constexpr Real negligible_distance = std::numeric_limits<Real>::digits > 53 ? Real(746) : Real(104);

// The answer for one query row.
template <class Real>
struct Row {
  std::vector<Real> out;        // O, value_dim elements
  std::vector<Real> magnitude;  // A: sum_j p_j * |v_jd|
  Real lse = 0;                 // log of the sum of exp(score); -inf for a row that sees no key
  Real score_magnitude = 0;     // S
  std::int64_t keys = 0;        // number of visible keys
};

// Keys are kept in groups of `lanes`, channel by channel, so that a plain loop over a group is a vector loop.
constexpr std::int64_t lanes = 16;

// K and V of a head converted to Real once, for keys [keys.begin, keys.end) only: others are never read.
template <class Real>
class Prepared {
 public:
  template <class T>
  Prepared(const Head<T>& head, Keys keys)
      : keys_(keys), head_dim_(head.head_dim), value_dim_(head.value_dim), scale_(head.scale) {
    const std::int64_t count = std::max<std::int64_t>(keys.end - keys.begin, 0);
    const std::int64_t groups = (count + lanes - 1) / lanes;
    k_.assign(static_cast<std::size_t>(groups * lanes * head_dim_), Real(0));
    v_.resize(static_cast<std::size_t>(count * value_dim_));
    for (std::int64_t j = 0; j < count; ++j) {
      Real* lane = k_.data() + j / lanes * lanes * head_dim_ + j % lanes;
      for (std::int64_t c = 0; c < head_dim_; ++c)
        lane[c * lanes] = static_cast<Real>(head.k(keys.begin + j, c));
      Real* value = v_.data() + j * value_dim_;
      for (std::int64_t c = 0; c < value_dim_; ++c) value[c] = static_cast<Real>(head.v(keys.begin + j, c));
    }
  }

  // What one thread needs besides the answer.
  struct Scratch {
    std::vector<Real> q, dot, rest, size, weight;
    std::vector<char> visible;
  };

  // The row of `head` whose keys by causality and window are `keys`, a part of those prepared.
  template <class T>
  void row(const Head<T>& head, std::int64_t i, Keys keys, const ScoreOptions& options, Scratch& scratch,
           Row<Real>& row) const {
    using std::abs;
    using std::exp;
    using std::log;
    const Real infinity = std::numeric_limits<Real>::infinity();
    const std::int64_t count = std::max<std::int64_t>(keys.end - keys.begin, 0);
    row.out.assign(static_cast<std::size_t>(value_dim_), Real(0));
    row.magnitude.assign(static_cast<std::size_t>(value_dim_), Real(0));
    row.lse = -infinity;
    row.score_magnitude = Real(0);
    row.keys = 0;

    scratch.q.resize(static_cast<std::size_t>(head_dim_));
    for (std::int64_t c = 0; c < head_dim_; ++c)
      scratch.q[static_cast<std::size_t>(c)] = static_cast<Real>(head.q(i, c));
    const std::int64_t first = keys.begin - keys_.begin;
    dots(first, count, scratch);
    for (std::int64_t j = 0; j < count; ++j)
      final_score(i, keys.begin + j, static_cast<std::size_t>(j), options, scratch);

    // The largest score. A NaN score is no candidate; it comes back in the sum.
    Real max = -infinity, max_rest = 0;
    for (std::size_t j = 0; j < static_cast<std::size_t>(count); ++j) {
      if (!scratch.visible[j]) continue;
      ++row.keys;
      if (!(scratch.dot[j] > max)) continue;
      max = scratch.dot[j];
      max_rest = scratch.rest[j];
    }
    for (const double sink : options.sink)
      if (static_cast<Real>(sink) > max) {
        max = static_cast<Real>(sink);
        max_rest = 0;
      }
    row.score_magnitude = score_magnitude(max, options, scratch);

    // Weights. Scores are values with what rounding took from them, so that the difference of two is nearly
    // exact, whatever their size. Where all scores are -inf, every weight is 0.
    const bool finite_max = max > -infinity && max < infinity;
    const auto weight_of = [&](Real score, Real rest) {
      if (finite_max && abs(score) < infinity) return exp((score - max) + (rest - max_rest));
      return exp(score - (max == -infinity ? Real(0) : max));
    };
    scratch.weight.assign(static_cast<std::size_t>(count), Real(0));
    Real sum = 0;
    for (std::size_t j = 0; j < static_cast<std::size_t>(count); ++j) {
      if (!scratch.visible[j]) continue;
      scratch.weight[j] = weight_of(scratch.dot[j], scratch.rest[j]);
      sum += scratch.weight[j];
    }
    for (const double sink : options.sink) sum += weight_of(static_cast<Real>(sink), Real(0));

    Real* out = row.out.data();
    Real* magnitude = row.magnitude.data();
    for (std::int64_t j = 0; j < count; ++j) {
      if (!scratch.visible[static_cast<std::size_t>(j)]) continue;
      const Real weight = scratch.weight[static_cast<std::size_t>(j)];
      Real factor = 1, trace = 0;
      if (options.keeps) {
        factor = options.keeps(i, keys.begin + j) ? static_cast<Real>(options.kept_factor) : Real(0);
        // Dropping a row's heavy keys may leave weights that FP32 does not hold: A keeps a trace of them.
        trace = Real(0x1p-16) * static_cast<Real>(options.kept_factor);
      }
      const Real* value = v_.data() + (first + j) * value_dim_;
      for (std::int64_t c = 0; c < value_dim_; ++c) {
        const Real term = weight * value[c];
        out[c] += factor * term;
        magnitude[c] += (factor + trace) * abs(term);
      }
    }
    // A row whose scores are all -inf has the sum 0 and is like one that sees no key.
    const Real normalizer = sum == Real(0) ? Real(0) : Real(1) / sum;
    for (std::int64_t c = 0; c < value_dim_; ++c) {
      out[c] *= normalizer;
      magnitude[c] *= normalizer;
    }
    row.lse = sum == Real(0) ? -infinity : max + (finite_max ? max_rest : Real(0)) + log(sum);
  }

 private:
  // Dot products of the scratch query with `count` keys from `first`, each as a value and what rounding took
  // from it (TwoSum), so that two nearly equal huge scores still differ by the right amount, and the sum of
  // |q_c * k_c|. A product of two floats is exact in double.
  void dots(std::int64_t first, std::int64_t count, Scratch& scratch) const {
    using std::abs;
    const auto padded = static_cast<std::size_t>(count);
    scratch.dot.resize(padded);
    scratch.rest.resize(padded);
    scratch.size.resize(padded);
    scratch.visible.resize(padded);
    for (std::int64_t group = first / lanes; group * lanes < first + count; ++group) {
      const Real* k = k_.data() + group * lanes * head_dim_;
      Real dot[lanes] = {}, rest[lanes] = {}, size[lanes] = {};
      for (std::int64_t c = 0; c < head_dim_; ++c) {
        const Real q = scratch.q[static_cast<std::size_t>(c)];
        for (std::int64_t t = 0; t < lanes; ++t) {
          const Real product = q * k[c * lanes + t];
          const Real next = dot[t] + product;
          const Real kept = next - dot[t];
          rest[t] += (dot[t] - (next - kept)) + (product - kept);
          dot[t] = next;
          size[t] += abs(product);
        }
      }
      for (std::int64_t t = 0; t < lanes; ++t) {
        const std::int64_t j = group * lanes + t - first;
        if (j < 0 || j >= count) continue;
        scratch.dot[static_cast<std::size_t>(j)] = dot[t];
        scratch.rest[static_cast<std::size_t>(j)] = rest[t];
        scratch.size[static_cast<std::size_t>(j)] = size[t];
      }
    }
  }

  // From the dot product of query i and key j, at place `at` of the scratch, to the score that is
  // exponentiated, the size of what it was added up from, and whether the key is visible.
  void final_score(std::int64_t i, std::int64_t j, std::size_t at, const ScoreOptions& options,
                   Scratch& scratch) const {
    using std::abs;
    const Real infinity = std::numeric_limits<Real>::infinity();
    Real& score = scratch.dot[at];
    Real& rest = scratch.rest[at];
    Real& size = scratch.size[at];
    scratch.visible[at] = options.sees(i, j) ? 1 : 0;
    const Real scale = static_cast<Real>(scale_);
    const Real scaled = scale * score;
    rest = std::fma(scale, score, -scaled) + scale * rest;
    score = scaled;
    size *= abs(scale);
    if (options.softcap != 0) {
      const Real cap = static_cast<Real>(options.softcap);
      score = cap * std::tanh((score + (abs(score) < infinity ? rest : Real(0))) / cap);
      rest = 0;
    }
    const auto add = [&](Real term, Real term_rest) {
      const Real next = score + term;
      const Real kept = next - score;
      rest += (score - (next - kept)) + (term - kept) + term_rest;
      score = next;
      size += abs(term);
    };
    if (options.bias) add(static_cast<Real>(options.bias(i, j)), Real(0));
    if (options.slope != 0) {
      const Real distance = static_cast<Real>(abs(i + options.diagonal_offset - j));
      const Real slope = static_cast<Real>(options.slope);
      const Real term = -slope * distance;
      add(term, std::fma(-slope, distance, -term));
    }
  }

  // S: over the visible keys whose score is finite. A key with an infinite or NaN score has weight 0 or makes
  // the row NaN; it must not widen a bound, and neither must one that options push out of sight.
  Real score_magnitude(Real max, const ScoreOptions& options, const Scratch& scratch) const {
    const Real infinity = std::numeric_limits<Real>::infinity();
    const bool all = !options.change_scores();
    Real largest = 0;
    for (std::size_t j = 0; j < scratch.size.size(); ++j) {
      const Real size = scratch.size[j];
      if (!scratch.visible[j] || !(size > largest && size < infinity)) continue;
      const Real error = size * Real(0x1p-21);
      if (all || scratch.dot[j] + error >= max - negligible_distance<Real>) largest = size;
    }
    for (const double sink : options.sink) {
      const Real size = static_cast<Real>(std::abs(sink));
      if (size > largest && size < infinity && static_cast<Real>(sink) >= max - negligible_distance<Real>)
        largest = size;
    }
    return largest;
  }

  Keys keys_;
  std::int64_t head_dim_, value_dim_;
  double scale_;
  std::vector<Real> k_;  // (groups, head_dim, lanes)
  std::vector<Real> v_;  // (keys, value_dim)
};

// One row on its own: O(N) work to convert, O(N) memory.
template <class Real = double, class T, class Visible>
void reference_row(const Head<T>& head, std::int64_t i, Visible visible, Row<Real>& row,
                   const ScoreOptions& options = {}) {
  const Keys keys = visible(i);
  const Prepared<Real> prepared(head, keys);
  typename Prepared<Real>::Scratch scratch;
  prepared.row(head, i, keys, options, scratch, row);
}

template <class Real = double, class T>
void reference_row(const Head<T>& head, std::int64_t i, Row<Real>& row) {
  reference_row<Real>(head, i, AllKeys{head.kv_len}, row);
}

// 0, 1, ..., query_len - 1.
inline std::vector<std::int64_t> all_rows(std::int64_t query_len) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(std::max<std::int64_t>(query_len, 0)));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
  return rows;
}

// At most `count` of the rows, ascending: the first and last, the rows on both sides of the usual tile edges,
// and the rest spread evenly with an odd phase, so that every row of a tile has its turn. All rows if count
// is not smaller than query_len.
inline std::vector<std::int64_t> sampled_rows(std::int64_t query_len, std::int64_t count) {
  if (count >= query_len) return all_rows(query_len);
  std::vector<std::int64_t> rows;
  for (std::int64_t edge : {std::int64_t{0}, query_len - 1, std::int64_t{63}, std::int64_t{64},
                            std::int64_t{127}, std::int64_t{128}, query_len - 2, query_len / 2})
    if (edge >= 0 && edge < query_len && static_cast<std::int64_t>(rows.size()) < count &&
        std::find(rows.begin(), rows.end(), edge) == rows.end())
      rows.push_back(edge);
  const std::int64_t rest = count - static_cast<std::int64_t>(rows.size());
  for (std::int64_t r = 0; r < rest; ++r) {
    std::int64_t i = static_cast<std::int64_t>((static_cast<double>(r) + 0.5) / static_cast<double>(rest) *
                                               static_cast<double>(query_len)) +
                     r % 61;
    // A row that is taken gives its place to the next free one.
    for (i %= query_len; std::find(rows.begin(), rows.end(), i) != rows.end();) i = (i + 1) % query_len;
    rows.push_back(i);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

// Computes the given rows (ascending or not) on `threads` threads and hands each to sink(i, row) on the
// calling thread, in the order of `rows`. `visible(i)` and the functions of `options` are called from all
// threads.
template <class Real = double, class T, class Visible, class Sink>
void for_each_reference_row(const Head<T>& head, const std::vector<std::int64_t>& rows, Visible visible,
                            int threads, Sink sink, const ScoreOptions& options = {}) {
  if (rows.empty()) return;
  Keys all{std::numeric_limits<std::int64_t>::max(), 0};
  for (const std::int64_t i : rows) {
    const Keys keys = visible(i);
    if (keys.begin >= keys.end) continue;
    all.begin = std::min(all.begin, keys.begin);
    all.end = std::max(all.end, keys.end);
  }
  if (all.begin > all.end) all = {0, 0};
  const Prepared<Real> prepared(head, all);

  constexpr std::size_t batch_rows = 512;
  std::vector<Row<Real>> batch(std::min(batch_rows, rows.size()));
  for (std::size_t start = 0; start < rows.size(); start += batch_rows) {
    const std::size_t count = std::min(batch_rows, rows.size() - start);
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      typename Prepared<Real>::Scratch scratch;
      for (std::size_t r = next++; r < count; r = next++)
        prepared.row(head, rows[start + r], visible(rows[start + r]), options, scratch, batch[r]);
    };
    const auto helpers =
        std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), (count + 3) / 4) - 1;
    std::vector<std::thread> pool;
    for (std::size_t t = 0; t < helpers; ++t) pool.emplace_back(work);
    work();
    for (std::thread& thread : pool) thread.join();
    for (std::size_t r = 0; r < count; ++r) sink(rows[start + r], static_cast<const Row<Real>&>(batch[r]));
  }
}

}  // namespace reference
}  // namespace runmax
