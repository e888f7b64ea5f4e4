// Drawn problems with their reference, ready to be evidence.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "inputs/draw.hpp"
#include "judge/diagnosis/diagnosis.hpp"
#include "reference/reference.hpp"
#include "runmax/problem.hpp"

namespace runmax::diagnosis {

using Change = std::function<void(const Problem&, inputs::HostInputs&)>;

// Channel 0 of every key lowered, or raised, so that all scores of the loud data move by `by`.
inline Change scores_moved(float by) {
  return [by](const Problem& p, inputs::HostInputs& in) {
    const auto step = by / (static_cast<float>(effective_scale(p)) * in.q[0]);
    for (std::size_t at = 0; at < in.k.size(); at += static_cast<std::size_t>(p.head_dim)) in.k[at] += step;
  };
}

// V times a power of two, which only types with few exponents notice.
inline Change values_times(float factor) {
  return [factor](const Problem&, inputs::HostInputs& in) {
    for (float& value : in.v) value *= factor;
  };
}

class Drawn {
 public:
  explicit Drawn(const std::string& text, std::uint64_t seed = 1, const Change& change = {},
                 Bound bound = Bound::lesson)
      : bound_(bound) {
    Result<Problem> parsed = parse_problem(text + ":seed=" + std::to_string(seed));
    if (!parsed.ok()) throw std::runtime_error(parsed.status().message());
    problem = parsed.value();
    in = inputs::draw(problem);
    if (change) change(problem, in);
    const Problem& p = problem;
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t h = 0; h < p.query_heads; ++h) {
        const std::int64_t kv = b * p.kv_heads + h / (p.query_heads / p.kv_heads);
        const reference::Head<float> head{
            {in.q.data() + (b * p.query_heads + h) * p.query_len * p.head_dim, p.head_dim, 1},
            {in.k.data() + kv * p.kv_len * p.head_dim, p.head_dim, 1},
            {in.v.data() + kv * p.kv_len * p.value_dim, p.value_dim, 1},
            p.query_len,
            p.kv_len,
            p.head_dim,
            p.value_dim,
            effective_scale(p)};
        reference::for_each_reference_row(
            head, reference::all_rows(p.query_len),
            [&](std::int64_t i) {
              const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
              return reference::Keys{keys.begin, keys.end};
            },
            1, [&](std::int64_t, const reference::Row<double>& row) { want.push_back(row); });
      }
    out.assign(static_cast<std::size_t>(p.batch * p.query_heads * p.query_len * p.value_dim),
               std::numeric_limits<float>::quiet_NaN());
    lse.assign(want.size(), std::numeric_limits<float>::quiet_NaN());
  }

  // The reference's answer, rounded.
  void answer_rightly() {
    for (std::size_t r = 0; r < want.size(); ++r) {
      for (std::size_t c = 0; c < want[r].out.size(); ++c)
        out[r * want[r].out.size() + c] = static_cast<float>(want[r].out[c]);
      lse[r] = static_cast<float>(want[r].lse);
    }
  }

  Evidence evidence(bool with_lse = false) const {
    Evidence e;
    e.problem = problem;
    e.q = in.q.data();
    e.k = in.k.data();
    e.v = in.v.data();
    e.want = want.data();
    e.out = out.data();
    e.lse = with_lse ? lse.data() : nullptr;
    e.bound = bound_;
    return e;
  }

  float* row(std::int64_t r) { return out.data() + r * problem.value_dim; }

  Problem problem;
  inputs::HostInputs in;
  std::vector<reference::Row<double>> want;
  std::vector<float> out, lse;

 private:
  Bound bound_;
};

}  // namespace runmax::diagnosis
