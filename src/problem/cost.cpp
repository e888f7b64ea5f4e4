// How much work a problem is: visible pairs, floating-point operations, bytes. Each formula exists once,
// here.
#include <algorithm>
#include <cmath>

#include "runmax/backward.hpp"
#include "runmax/problem.hpp"

namespace runmax {
namespace {

// Sum over i in [0, count) of clamp(i + start, 0, limit), exact below 2^53.
double clamped_ramp(double count, double start, double limit) {
  // Rows below `first` clamp to 0, rows from `last` on clamp to limit; between them the ramp rises by one a
  // row.
  const double first = std::clamp(-start, 0.0, count);
  const double last = std::clamp(limit - start, first, count);
  const double rising = last - first;
  const double ramp = rising == 0 ? 0 : rising * (2 * start + first + last - 1) / 2;
  return ramp + (count - last) * limit;
}

double visible_pairs_of_one(Causal causal, Window window, std::int64_t query_len, std::int64_t kv_len) {
  const auto rows = static_cast<double>(query_len);
  const auto keys = static_cast<double>(kv_len);
  const auto offset = static_cast<double>(diagonal_offset(causal, query_len, kv_len));
  std::int64_t right = window.right;
  if (causal != Causal::none) right = right < 0 ? 0 : std::min<std::int64_t>(right, 0);
  const double ends =
      right < 0 ? rows * keys : clamped_ramp(rows, offset + static_cast<double>(right) + 1, keys);
  const double begins =
      window.left < 0 ? 0 : clamped_ramp(rows, offset - static_cast<double>(window.left), keys);
  return ends - begins;
}

}  // namespace

double effective_scale(const Problem& problem) {
  if (problem.softmax_scale) return *problem.softmax_scale;
  return problem.head_dim == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(problem.head_dim));
}

std::int64_t diagonal_offset(Causal causal, std::int64_t query_len, std::int64_t kv_len) {
  return causal == Causal::top_left ? 0 : kv_len - query_len;
}

KeyRange visible_keys(Causal causal, Window window, std::int64_t query_len, std::int64_t kv_len,
                      std::int64_t i) {
  const std::int64_t diagonal = i + diagonal_offset(causal, query_len, kv_len);
  KeyRange range{0, kv_len};
  if (causal != Causal::none) range.end = std::clamp<std::int64_t>(diagonal + 1, 0, kv_len);
  if (window.right >= 0)
    range.end = std::min(range.end, std::clamp<std::int64_t>(diagonal + window.right + 1, 0, kv_len));
  if (window.left >= 0) range.begin = std::clamp<std::int64_t>(diagonal - window.left, 0, kv_len);
  range.begin = std::min(range.begin, range.end);
  return range;
}

double visible_pairs(const Problem& problem) {
  const auto heads = static_cast<double>(problem.query_heads);
  if (problem.varlen.empty())
    return static_cast<double>(problem.batch) * heads *
           visible_pairs_of_one(problem.causal, problem.window, problem.query_len, problem.kv_len);
  double pairs = 0;
  for (const SequenceLengths& s : problem.varlen)
    pairs += heads * visible_pairs_of_one(problem.causal, problem.window, s.query_len, s.kv_len);
  return pairs;
}

double forward_flops(const Problem& problem) {
  return 2 * visible_pairs(problem) * static_cast<double>(problem.head_dim + problem.value_dim);
}

std::string_view forward_flops_formula() { return "2 * visible_pairs * (head_dim + value_dim)"; }

double backward_flops(const Problem& problem) {
  return 2 * visible_pairs(problem) *
         (3 * static_cast<double>(problem.head_dim) + 2 * static_cast<double>(problem.value_dim));
}

std::string_view backward_flops_formula() { return "2 * visible_pairs * (3 * head_dim + 2 * value_dim)"; }

double minimum_bytes(const Problem& problem) {
  double query_rows = static_cast<double>(problem.batch) * static_cast<double>(problem.query_len);
  double kv_rows = static_cast<double>(problem.batch) * static_cast<double>(problem.kv_len);
  if (!problem.varlen.empty()) {
    query_rows = kv_rows = 0;
    for (const SequenceLengths& s : problem.varlen) {
      query_rows += static_cast<double>(s.query_len);
      kv_rows += static_cast<double>(s.kv_len);
    }
  }
  const auto width = static_cast<double>(problem.head_dim + problem.value_dim);
  const auto element = static_cast<double>(dtype_bytes(problem.dtype));
  query_rows *= static_cast<double>(problem.query_heads);
  kv_rows *= static_cast<double>(problem.kv_heads);
  return element * width * (query_rows + kv_rows) + 4 * query_rows;
}

std::string_view minimum_bytes_formula() {
  return "element * (head_dim + value_dim) * (query_heads * query_len + kv_heads * kv_len) * batch + 4 * "
         "query_heads * query_len * batch";
}

double score_matrix_bytes(const Problem& problem) {
  const auto heads = static_cast<double>(problem.query_heads);
  if (problem.varlen.empty())
    return 4 * static_cast<double>(problem.batch) * heads * static_cast<double>(problem.query_len) *
           static_cast<double>(problem.kv_len);
  double bytes = 0;
  for (const SequenceLengths& s : problem.varlen)
    bytes += 4 * heads * static_cast<double>(s.query_len) * static_cast<double>(s.kv_len);
  return bytes;
}

}  // namespace runmax
