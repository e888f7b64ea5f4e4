#include "judge/timing/fresh.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "gate/gate.hpp"
#include "judge/cases/draw.hpp"

namespace runmax::judge {
namespace {

constexpr std::int64_t sampled = 512;

std::vector<std::int64_t> shuffled(std::int64_t count, inputs::Random& random) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::int64_t i = count - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(random.below(i + 1))]);
  return order;
}

void gather(const std::vector<float>& from, const std::vector<std::int64_t>& order, std::size_t width,
            float* to) {
  for (const std::int64_t row : order) {
    std::memcpy(to, from.data() + static_cast<std::size_t>(row) * width, width * sizeof(float));
    to += width;
  }
}

}  // namespace

FreshData::FreshData(const Problem& problem, std::uint64_t seed, std::int64_t full_rows, int threads)
    : problem_(problem) {
  of_kind(InputKind::loud)(problem, seed, base_);
  rows_ = reference::sampled_rows(problem.query_len,
                                  problem.query_len <= full_rows ? problem.query_len : sampled);
  want_ = reference_rows(problem, base_, rows_, threads);
}

Variant FreshData::variant(inputs::Random& random) const {
  Variant variant;
  variant.query = shuffled(problem_.query_len, random);
  variant.key = shuffled(problem_.kv_len, random);
  const float size = std::ldexp(1.0f, static_cast<int>(random.below(9)) - 4);
  for (std::int64_t c = 0; c < problem_.value_dim; ++c)
    variant.factor.push_back(random.below(2) == 0 ? size : -size);
  return variant;
}

void FreshData::write(const Variant& variant, float* q, float* k, float* v) const {
  const auto width = static_cast<std::size_t>(problem_.head_dim);
  gather(base_.q, variant.query, width, q);
  gather(base_.k, variant.key, width, k);
  gather(base_.v, variant.key, width, v);
  for (std::size_t j = 0; j < variant.key.size(); ++j)
    for (std::size_t c = 0; c < width; ++c) v[j * width + c] *= variant.factor[c];
}

std::string FreshData::wrong(const Variant& variant, const float* out) const {
  std::vector<std::int64_t> place(variant.query.size());
  for (std::size_t i = 0; i < place.size(); ++i)
    place[static_cast<std::size_t>(variant.query[i])] = static_cast<std::int64_t>(i);
  gate::LessonGate lesson(problem_.kv_len);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    reference::Row<double> want = want_[r];
    for (std::size_t c = 0; c < want.out.size(); ++c) {
      want.out[c] *= variant.factor[c];
      want.magnitude[c] *= std::abs(variant.factor[c]);
    }
    const std::int64_t row = place[static_cast<std::size_t>(rows_[r])];
    lesson.add_row(0, 0, row, want, out + row * problem_.value_dim, 1);
  }
  const gate::Verdict verdict = lesson.verdict();
  if (verdict.passed) return "";
  const gate::Offender& o = verdict.offender;
  return fmt::format(
      "query row {}, head dimension {}: got {:.9g}, want {:.9g}, bound {:.3e}; {} of {} elements are wrong",
      o.row, o.dim, o.got, o.want, o.bound, verdict.failed, verdict.compared);
}

}  // namespace runmax::judge
