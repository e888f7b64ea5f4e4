#include "cli/attention_arrays.hpp"

namespace runmax::cli {
namespace {

Status mismatch(const NamedArray& array, const std::string& rule) {
  return {StatusCode::invalid_argument, array.source + ": " + rule};
}

std::string got(const NamedArray& array) { return files::shape_text(array.array.shape); }

}  // namespace

std::array<std::int64_t, 4> canonical_shape(const files::Shape& shape, Layout layout) {
  const std::size_t rank = shape.size();
  const std::int64_t dim = shape[rank - 1];
  if (rank == 2) return {1, 1, shape[0], dim};
  const std::int64_t batch = rank == 4 ? shape[0] : 1;
  const std::int64_t first = shape[rank - 3], second = shape[rank - 2];
  if (layout == Layout::bshd) return {batch, second, first, dim};
  return {batch, first, second, dim};
}

Status take_shapes(const NamedArray& q, const NamedArray& k, const NamedArray& v, Layout layout,
                   Problem& problem) {
  const std::size_t rank = q.array.shape.size();
  if (rank < 2 || rank > 4)
    return mismatch(q, "q must have 2, 3 or 4 dimensions, got " + std::to_string(rank) + ": " + got(q));
  for (const auto& [array, name] : {std::pair(&k, "k"), std::pair(&v, "v")})
    if (array->array.shape.size() != rank)
      return mismatch(*array, std::string(name) + " must have as many dimensions as q (q " + got(q) + ", " +
                                  name + " " + got(*array) + ")");
  const auto shape_q = canonical_shape(q.array.shape, layout);
  const auto shape_k = canonical_shape(k.array.shape, layout);
  const auto shape_v = canonical_shape(v.array.shape, layout);

  struct Rule {
    std::size_t axis;
    const char* what;
  };
  const auto equal = [](const NamedArray& array, const char* name, const auto& shape, const char* other_name,
                        const NamedArray& other, const auto& other_shape, Rule rule) -> Status {
    if (shape[rule.axis] == other_shape[rule.axis]) return {};
    return mismatch(array, std::string(rule.what) + " of " + name + " must equal that of " + other_name +
                               ", got " + std::to_string(shape[rule.axis]) + " and " +
                               std::to_string(other_shape[rule.axis]) + " (" + other_name + " " + got(other) +
                               ", " + name + " " + got(array) + ")");
  };
  constexpr Rule batch{0, "the batch size"}, heads{1, "the number of heads"}, length{2, "the length"},
      dim{3, "the head dimension"};
  for (Status status :
       {equal(k, "k", shape_k, "q", q, shape_q, batch), equal(k, "k", shape_k, "q", q, shape_q, dim),
        equal(v, "v", shape_v, "k", k, shape_k, batch), equal(v, "v", shape_v, "k", k, shape_k, heads),
        equal(v, "v", shape_v, "k", k, shape_k, length)})
    if (!status.ok()) return status;
  if (shape_k[1] == 0 ? shape_q[1] != 0 : shape_q[1] % shape_k[1] != 0)
    return mismatch(k, "the number of heads of k must divide that of q, got " + std::to_string(shape_k[1]) +
                           " and " + std::to_string(shape_q[1]) + " (q " + got(q) + ", k " + got(k) + ", " +
                           (layout == Layout::bshd ? "bshd" : "bhsd") + ")");

  problem.batch = shape_q[0];
  problem.query_heads = shape_q[1];
  problem.kv_heads = shape_k[1];
  problem.query_len = shape_q[2];
  problem.kv_len = shape_k[2];
  problem.head_dim = shape_q[3];
  problem.value_dim = shape_v[3];
  return {};
}

files::Shape output_shape(const files::Shape& q, const Problem& problem) {
  files::Shape shape = q;
  shape.back() = problem.value_dim;
  return shape;
}

files::Shape lse_shape(const files::Shape& q, Layout layout) {
  const auto [batch, heads, length, dim] = canonical_shape(q, layout);
  files::Shape shape{batch, heads, length};
  shape.erase(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(4 - q.size()));
  return shape;
}

}  // namespace runmax::cli
