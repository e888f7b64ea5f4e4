#include "lab/data.hpp"

#include <algorithm>
#include <cmath>

#include "inputs/loud.hpp"
#include "lab/report.hpp"

namespace runmax::lab {
namespace {

void swap_rows(std::vector<float>& matrix, std::int64_t a, std::int64_t b) {
  if (a == b) return;
  std::swap_ranges(matrix.begin() + a * head_dim, matrix.begin() + (a + 1) * head_dim,
                   matrix.begin() + b * head_dim);
}

}  // namespace

std::vector<std::int64_t> gated_rows(std::int64_t n) {
  return n <= full_reference_len ? reference::all_rows(n) : reference::sampled_rows(n, sampled_row_count);
}

Data draw_data(std::int64_t n, std::uint64_t seed, LoudKey loud) {
  Data data;
  data.n = n;
  const auto size = static_cast<std::size_t>(n * head_dim);
  data.q.resize(size);
  data.k.resize(size);
  data.v.resize(size);
  inputs::draw_loud_head(seed, n, head_dim, data.q.data(), data.k.data(), data.v.data());
  if (loud == LoudKey::in_first_tile) {
    const std::int64_t first = std::min<std::int64_t>(2, n - 1);
    swap_rows(data.k, inputs::loud_key(n), first);
    swap_rows(data.v, inputs::loud_key(n), first);
  }
  data.rows = gated_rows(n);
  return data;
}

void add_reference(Data& data, int threads) {
  if (!data.reference.empty()) return;
  reference::Head<float> head;
  head.q = {data.q.data(), head_dim, 1};
  head.k = {data.k.data(), head_dim, 1};
  head.v = {data.v.data(), head_dim, 1};
  head.query_len = head.kv_len = data.n;
  head.head_dim = head.value_dim = head_dim;
  head.scale = 1 / std::sqrt(static_cast<double>(head_dim));
  data.reference.reserve(data.rows.size());
  reference::for_each_reference_row(
      head, data.rows, reference::AllKeys{data.n}, threads,
      [&](std::int64_t, const reference::Row<double>& row) { data.reference.push_back(row); });
}

}  // namespace runmax::lab
