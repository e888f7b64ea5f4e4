#include "judge/diagnosis/call.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gate/tolerance.hpp"
#include "gate/verdict.hpp"

namespace runmax::diagnosis {

double distance(double got, double want, double scale) {
  if (gate::within(got, want, 0)) return 0;
  if (!std::isfinite(got) || !std::isfinite(want)) return std::numeric_limits<double>::infinity();
  return std::abs(got - want) / scale;
}

Call::Call(const Evidence& evidence) : evidence_(&evidence), scale_(effective_scale(evidence.problem)) {
  const Problem& p = problem();
  row_count_ = p.batch * p.query_heads * p.query_len;
  wrong_.assign(static_cast<std::size_t>(row_count_), 0);
  floor_.assign(static_cast<std::size_t>(row_count_), 0);
  for (std::int64_t r = 0; r < row_count_; ++r) {
    double largest = 0;
    for (const double a : want(r).magnitude) largest = std::max(largest, a);
    floor_[static_cast<std::size_t>(r)] = largest * 0x1p-16;
    if (evidence.out && breaks_bound(r, out(r))) {
      wrong_[static_cast<std::size_t>(r)] = 1;
      ++wrong_count_;
    }
    if (lse_wrong(r)) ++lse_wrong_count_;
  }
  find_suspects();
}

void Call::find_suspects() {
  constexpr std::int64_t fewest_elements = 16;  // fewer may fit anything
  suspect_.assign(static_cast<std::size_t>(value_dim()), 1);
  if (!anything_wrong()) return;
  std::vector<std::int64_t> wrong_in(static_cast<std::size_t>(value_dim()), 0);
  std::int64_t elements = 0;
  for (std::int64_t r = 0; r < row_count_; ++r) {
    if (!wrong(r)) continue;
    for (std::int64_t c = 0; c < value_dim(); ++c)
      if (gate_fraction(r, c, out(r)[c]) > 1) {
        ++wrong_in[static_cast<std::size_t>(c)];
        ++elements;
      }
  }
  std::vector<std::int64_t> dimensions;
  for (std::int64_t c = 0; c < value_dim(); ++c)
    if (wrong_in[static_cast<std::size_t>(c)] > 0) dimensions.push_back(c);
  if (elements < fewest_elements || 4 * static_cast<std::int64_t>(dimensions.size()) > 3 * value_dim())
    return;
  for (std::int64_t c = 0; c < value_dim(); ++c)
    suspect_[static_cast<std::size_t>(c)] = wrong_in[static_cast<std::size_t>(c)] > 0 ? 1 : 0;
  suspect_dimensions_ = std::move(dimensions);
}

Place Call::place(std::int64_t r) const {
  const Problem& p = problem();
  return {r / (p.query_heads * p.query_len), r / p.query_len % p.query_heads, r % p.query_len};
}

std::int64_t Call::row_at(Place place) const {
  return (place.batch * problem().query_heads + place.head) * problem().query_len + place.row;
}

std::int64_t Call::kv_head(std::int64_t query_head) const {
  return query_head / (problem().query_heads / problem().kv_heads);
}

const float* Call::q(Place place) const { return evidence_->q + row_at(place) * problem().head_dim; }

const float* Call::k(std::int64_t batch, std::int64_t kv_head) const {
  const Problem& p = problem();
  return evidence_->k + (batch * p.kv_heads + kv_head) * p.kv_len * p.head_dim;
}

const float* Call::v(std::int64_t batch, std::int64_t kv_head) const {
  const Problem& p = problem();
  return evidence_->v + (batch * p.kv_heads + kv_head) * p.kv_len * p.value_dim;
}

KeyRange Call::keys(std::int64_t row) const {
  const Problem& p = problem();
  return visible_keys(p.causal, p.window, p.query_len, p.kv_len, row);
}

double Call::error_scale(std::int64_t r, std::int64_t channel) const {
  const double a = want(r).magnitude[static_cast<std::size_t>(channel)] + floor_[static_cast<std::size_t>(r)];
  return a > 0 ? a : 1;  // a row that sees no key, or only zeros: the error itself
}

double Call::tolerance(std::int64_t r) const {
  const std::int64_t n = problem().kv_len;
  return evidence_->bound == Bound::lesson
             ? gate::lesson_rtol(n)
             : gate::hostile_rtol(n, want(r).score_magnitude, gate::SequentialSum::allowed);
}

double Call::gate_fraction(std::int64_t r, std::int64_t channel, double got) const {
  const double right = want(r).out[static_cast<std::size_t>(channel)];
  const double a = want(r).magnitude[static_cast<std::size_t>(channel)] + floor_[static_cast<std::size_t>(r)];
  return distance(got, right, tolerance(r) * a + gate::subnormal_slack(problem().kv_len));
}

bool Call::breaks_bound(std::int64_t r, const float* answer) const {
  for (std::int64_t c = 0; c < value_dim(); ++c)
    if (gate_fraction(r, c, answer[c]) > 1) return true;
  return false;
}

bool Call::contradicts(std::int64_t r, const float* answer) const {
  for (std::int64_t c = 0; c < value_dim(); ++c)
    if (suspect(c) && gate_fraction(r, c, answer[c]) > 1) return true;
  return false;
}

bool Call::lse_wrong(std::int64_t r) const {
  if (!evidence_->lse) return false;
  const reference::Row<double>& row = want(r);
  return !gate::within(
      evidence_->lse[r], row.lse,
      gate::lse_bound(row.lse, row.score_magnitude, problem().kv_len, gate::SequentialSum::allowed));
}

std::vector<std::int64_t> Call::sample(std::int64_t wrong_limit, std::int64_t right_limit) const {
  std::vector<std::int64_t> rows;
  const auto take = [&](bool of_wrong, std::int64_t count, std::int64_t limit) {
    limit = std::min(limit, count);
    std::int64_t seen = 0, taken = 0;
    for (std::int64_t r = 0; r < row_count_ && taken < limit; ++r) {
      if (wrong(r) != of_wrong) continue;
      // The element in the middle of each of `limit` equal parts.
      if (seen++ == (2 * taken + 1) * count / (2 * limit)) {
        rows.push_back(r);
        ++taken;
      }
    }
  };
  take(true, wrong_count_, wrong_limit);
  take(false, row_count_ - wrong_count_, right_limit);
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<float> scores_of(const float* q, const float* k, std::int64_t kv_len, std::int64_t head_dim,
                             float scale) {
  std::vector<float> scores(static_cast<std::size_t>(kv_len));
  for (std::int64_t j = 0; j < kv_len; ++j) {
    constexpr std::int64_t lanes = 8;
    float parts[lanes] = {};
    const float* key = k + j * head_dim;
    std::int64_t c = 0;
    for (; c + lanes <= head_dim; c += lanes)
      for (std::int64_t lane = 0; lane < lanes; ++lane) parts[lane] += q[c + lane] * key[c + lane];
    float dot = 0;
    for (const float part : parts) dot += part;
    for (; c < head_dim; ++c) dot += q[c] * key[c];
    scores[static_cast<std::size_t>(j)] = dot * scale;
  }
  return scores;
}

RowInputs row_inputs(const Call& call, std::int64_t r) {
  const Problem& p = call.problem();
  RowInputs row;
  row.call = &call;
  row.place = call.place(r);
  row.q = call.q(row.place);
  row.k = call.k(row.place.batch, call.kv_head(row.place.head));
  row.v = call.v(row.place.batch, call.kv_head(row.place.head));
  row.keys = call.keys(row.place.row);
  row.scores = scores_of(row.q, row.k, p.kv_len, p.head_dim, static_cast<float>(call.scale()));
  return row;
}

}  // namespace runmax::diagnosis
