// One call of a candidate as the diagnosis sees it: which rows are wrong, and what a mistake starts from.
#pragma once

#include <cstdint>
#include <vector>

#include "judge/diagnosis/diagnosis.hpp"

namespace runmax::diagnosis {

struct Place {
  std::int64_t batch = 0, head = 0, row = 0;
};

// |got - want| over a scale; 0 for what may stand for each other, infinite if only one is finite.
double distance(double got, double want, double scale);

class Call {
 public:
  explicit Call(const Evidence& evidence);

  const Problem& problem() const { return evidence_->problem; }
  const Evidence& evidence() const { return *evidence_; }
  double scale() const { return scale_; }
  std::int64_t row_count() const { return row_count_; }
  std::int64_t value_dim() const { return problem().value_dim; }

  Place place(std::int64_t r) const;
  std::int64_t row_at(Place place) const;
  std::int64_t kv_head(std::int64_t query_head) const;
  const float* q(Place place) const;
  const float* k(std::int64_t batch, std::int64_t kv_head) const;
  const float* v(std::int64_t batch, std::int64_t kv_head) const;
  const float* out(std::int64_t r) const { return evidence_->out + r * value_dim(); }
  const reference::Row<double>& want(std::int64_t r) const { return evidence_->want[r]; }
  KeyRange keys(std::int64_t row) const;

  // A*, and what an error may be as a share of it.
  double error_scale(std::int64_t r, std::int64_t channel) const;
  double tolerance(std::int64_t r) const;
  // |error| / bound of an element of any answer of this row.
  double gate_fraction(std::int64_t r, std::int64_t channel, double got) const;
  bool breaks_bound(std::int64_t r, const float* answer) const;

  // Whether a mistake is compared in this dimension: all of them, unless the wrong elements all lie in a
  // part, as where a kernel forgets one of the registers that a lane holds.
  bool suspect(std::int64_t channel) const { return suspect_[static_cast<std::size_t>(channel)] != 0; }
  const std::vector<std::int64_t>& suspect_dimensions() const { return suspect_dimensions_; }
  // Breaks the bound in a suspect dimension.
  bool contradicts(std::int64_t r, const float* answer) const;

  bool wrong(std::int64_t r) const { return wrong_[static_cast<std::size_t>(r)] != 0; }
  bool anything_wrong() const { return wrong_count_ > 0; }
  std::int64_t wrong_count() const { return wrong_count_; }
  bool lse_wrong(std::int64_t r) const;
  bool any_lse_wrong() const { return lse_wrong_count_ > 0; }

  // At most `wrong_limit` wrong rows and `right_limit` right ones, spread evenly, ascending.
  std::vector<std::int64_t> sample(std::int64_t wrong_limit, std::int64_t right_limit) const;

 private:
  const Evidence* evidence_;
  double scale_;
  std::int64_t row_count_;
  void find_suspects();

  std::vector<char> wrong_, suspect_;
  std::vector<std::int64_t> suspect_dimensions_;  // empty: all
  std::vector<double> floor_;
  std::int64_t wrong_count_ = 0, lse_wrong_count_ = 0;
};

// What a mistake starts from for one row: the inputs that the right kernel would read, and its scores.
struct RowInputs {
  const Call* call = nullptr;
  Place place;
  const float* q = nullptr;
  const float* k = nullptr;  // (kv_len, head_dim)
  const float* v = nullptr;  // (kv_len, value_dim)
  KeyRange keys;
  std::vector<float> scores;  // of all kv_len keys, scaled, in FP32

  std::int64_t kv_len() const { return call->problem().kv_len; }
  std::int64_t head_dim() const { return call->problem().head_dim; }
  std::int64_t value_dim() const { return call->problem().value_dim; }
};

RowInputs row_inputs(const Call& call, std::int64_t r);

// scale * q . k for all keys of a (kv_len, head_dim) matrix.
std::vector<float> scores_of(const float* q, const float* k, std::int64_t kv_len, std::int64_t head_dim,
                             float scale);

}  // namespace runmax::diagnosis
