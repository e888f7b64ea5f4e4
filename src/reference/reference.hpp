// The reference (C++17, standard library only): exact attention in double, one row of scores at a time.
//
// It shares no code with the kernels, not even online_softmax.hpp: it takes the maximum over the whole row,
// then the weights, then the sums. Besides O and LSE it returns what the gates measure errors with: A, the
// sum of p_j * |v_jd| of every output element, and S, the largest |scale| * sum_d |q_d * k_d| of the row.
// docs/numerics.md says what it does with infinities and NaN.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
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
    std::vector<Real> q, dot, rest, weight;
  };

  // The row of `head` whose visible keys are `keys`, a part of those prepared.
  template <class T>
  void row(const Head<T>& head, std::int64_t i, Keys keys, Scratch& scratch, Row<Real>& row) const {
    using std::abs;
    using std::exp;
    using std::log;
    const Real infinity = std::numeric_limits<Real>::infinity();
    const std::int64_t count = std::max<std::int64_t>(keys.end - keys.begin, 0);
    row.out.assign(static_cast<std::size_t>(value_dim_), Real(0));
    row.magnitude.assign(static_cast<std::size_t>(value_dim_), Real(0));
    row.lse = -infinity;
    row.score_magnitude = Real(0);
    row.keys = count;
    if (count == 0) return;

    scratch.q.resize(static_cast<std::size_t>(head_dim_));
    for (std::int64_t c = 0; c < head_dim_; ++c)
      scratch.q[static_cast<std::size_t>(c)] = static_cast<Real>(head.q(i, c));
    const std::int64_t first = keys.begin - keys_.begin;
    row.score_magnitude = static_cast<Real>(std::abs(scale_)) * dots(first, count, scratch);

    // The largest score. A NaN score is no candidate; it comes back in the sum.
    const Real scale = static_cast<Real>(scale_);
    std::int64_t top = -1;
    for (std::int64_t j = 0; j < count; ++j) {
      const Real score = scale * scratch.dot[static_cast<std::size_t>(j)];
      if (score == score && (top < 0 || score > scale * scratch.dot[static_cast<std::size_t>(top)])) top = j;
    }
    const Real max = top < 0 ? -infinity : scale * scratch.dot[static_cast<std::size_t>(top)];

    // Weights. Where the largest score is finite, dot products are subtracted before scaling: their
    // difference is nearly exact, whatever their size. Where all scores are -inf, every weight is 0.
    const bool finite_max = max > -infinity && max < infinity;
    const Real top_dot = finite_max ? scratch.dot[static_cast<std::size_t>(top)] : Real(0);
    const Real top_rest = finite_max ? scratch.rest[static_cast<std::size_t>(top)] : Real(0);
    scratch.weight.resize(static_cast<std::size_t>(count));
    Real sum = 0;
    for (std::int64_t j = 0; j < count; ++j) {
      const Real dot = scratch.dot[static_cast<std::size_t>(j)];
      Real below = 0;
      if (finite_max && abs(dot) < infinity)
        below = scale * ((dot - top_dot) + (scratch.rest[static_cast<std::size_t>(j)] - top_rest));
      else
        below = scale * dot - (max == -infinity ? Real(0) : max);
      const Real weight = exp(below);
      scratch.weight[static_cast<std::size_t>(j)] = weight;
      sum += weight;
    }

    Real* out = row.out.data();
    Real* magnitude = row.magnitude.data();
    for (std::int64_t j = 0; j < count; ++j) {
      const Real weight = scratch.weight[static_cast<std::size_t>(j)];
      const Real* value = v_.data() + (first + j) * value_dim_;
      for (std::int64_t c = 0; c < value_dim_; ++c) {
        const Real term = weight * value[c];
        out[c] += term;
        magnitude[c] += abs(term);
      }
    }
    // A row whose scores are all -inf has the sum 0 and is like one that sees no key.
    const Real normalizer = sum == Real(0) ? Real(0) : Real(1) / sum;
    for (std::int64_t c = 0; c < value_dim_; ++c) {
      out[c] *= normalizer;
      magnitude[c] *= normalizer;
    }
    row.lse = sum == Real(0) ? -infinity : max + (finite_max ? scale * top_rest : Real(0)) + log(sum);
  }

 private:
  // Dot products of the scratch query with `count` keys from `first`, each as a value and what rounding took
  // from it (TwoSum), so that two nearly equal huge scores still differ by the right amount. A product of two
  // floats is exact in double. Returns the largest sum of |q_c * k_c|.
  Real dots(std::int64_t first, std::int64_t count, Scratch& scratch) const {
    using std::abs;
    const auto padded = static_cast<std::size_t>(count);
    scratch.dot.resize(padded);
    scratch.rest.resize(padded);
    Real largest = 0;
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
        // A key with an infinite or NaN score has weight 0 or makes the row NaN; it must not widen a bound.
        if (size[t] > largest && size[t] < std::numeric_limits<Real>::infinity()) largest = size[t];
      }
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
void reference_row(const Head<T>& head, std::int64_t i, Visible visible, Row<Real>& row) {
  const Keys keys = visible(i);
  const Prepared<Real> prepared(head, keys);
  typename Prepared<Real>::Scratch scratch;
  prepared.row(head, i, keys, scratch, row);
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
// calling thread, in the order of `rows`. `visible(i)` is called from all threads.
template <class Real = double, class T, class Visible, class Sink>
void for_each_reference_row(const Head<T>& head, const std::vector<std::int64_t>& rows, Visible visible,
                            int threads, Sink sink) {
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
        prepared.row(head, rows[start + r], visible(rows[start + r]), scratch, batch[r]);
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
