#include "judge/diagnosis/pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "judge/diagnosis/fit.hpp"

namespace runmax::diagnosis {
namespace {

constexpr std::int64_t most_map_rows = 24, most_map_columns = 64;

std::string number(std::int64_t value) { return std::to_string(value); }

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string ordinal(std::int64_t value) {
  const std::int64_t last = value % 100 / 10 == 1 ? 0 : value % 10;
  return number(value) + (last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th");
}

struct Extent {
  std::int64_t wrong_elements = 0, nan = 0, infinite = 0, elements = 0;
  std::vector<std::int64_t> batches, heads, rows, dims;  // with a wrong element
  std::vector<double> errors;                            // |error| / A* of the wrong, finite ones
};

Extent extent_of(const Call& call) {
  Extent extent;
  std::set<std::int64_t> batches, heads, rows, dims;
  for (std::int64_t r = 0; r < call.row_count(); ++r) {
    if (!call.wrong(r)) continue;
    const Place place = call.place(r);
    batches.insert(place.batch);
    heads.insert(place.head);
    rows.insert(place.row);
    for (std::int64_t c = 0; c < call.value_dim(); ++c) {
      const float got = call.out(r)[c];
      if (!(call.gate_fraction(r, c, got) > 1)) continue;
      ++extent.wrong_elements;
      dims.insert(c);
      if (std::isnan(got)) ++extent.nan;
      if (std::isinf(got)) ++extent.infinite;
      const double error =
          distance(got, call.want(r).out[static_cast<std::size_t>(c)], call.error_scale(r, c));
      if (std::isfinite(error)) extent.errors.push_back(error);
    }
  }
  extent.elements = call.row_count() * call.value_dim();
  extent.batches.assign(batches.begin(), batches.end());
  extent.heads.assign(heads.begin(), heads.end());
  extent.rows.assign(rows.begin(), rows.end());
  extent.dims.assign(dims.begin(), dims.end());
  return extent;
}

// ": the last tile of 64", if the rows are whole tiles at the end.
std::string tile_text(const std::vector<std::int64_t>& rows, std::int64_t count) {
  const std::int64_t first = rows.front(), wrong = static_cast<std::int64_t>(rows.size());
  if (first == 0 || rows.back() != count - 1 || wrong != count - first) return "";
  for (const std::int64_t tile : {256, 128, 64, 32, 16, 8})
    if (first % tile == 0 && wrong == tile) return " (the last tile of " + number(tile) + ")";
  for (const std::int64_t tile : {256, 128, 64, 32, 16, 8})
    if (first % tile == 0 && wrong < tile) return " (what is left over after tiles of " + number(tile) + ")";
  return "";
}

// What one factor, for all or a row each, would repair.
std::string factor_text(const Call& call) {
  const std::vector<std::int64_t> rows = call.sample(64, 0);
  double explained_by_row = 0, product_all = 0, square_all = 0;
  std::vector<double> factors;
  for (const std::int64_t r : rows) {
    double product = 0, square = 0;
    for (std::int64_t c = 0; c < call.value_dim(); ++c) {
      const double want = call.want(r).out[static_cast<std::size_t>(c)] / call.error_scale(r, c);
      product += call.out(r)[c] / call.error_scale(r, c) * want;
      square += want * want;
    }
    if (!std::isfinite(product) || square == 0) return "";
    product_all += product;
    square_all += square;
    factors.push_back(product / square);
  }
  double explained_by_one = 0;
  std::vector<float> answer(static_cast<std::size_t>(call.value_dim()));
  const auto share = [&](std::int64_t r, double factor) {
    for (std::size_t c = 0; c < answer.size(); ++c)
      answer[c] = static_cast<float>(factor * call.want(r).out[c]);
    return row_explained(call, r, answer.data()) / static_cast<double>(rows.size());
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    explained_by_row += share(rows[i], factors[i]);
    explained_by_one += share(rows[i], product_all / square_all);
  }
  if (call.value_dim() < 4) return "";
  if (explained_by_one > convincing)
    return "; the wrong rows are " + number(product_all / square_all) + " times the right ones";
  if (explained_by_row > convincing)
    return "; each wrong row is the right one times a factor of its own, from " +
           number(*std::min_element(factors.begin(), factors.end())) + " to " +
           number(*std::max_element(factors.begin(), factors.end())) +
           ": look at the sum that the row is divided by";
  return "";
}

std::string size_text(std::vector<double> errors) {
  if (errors.empty()) return "";
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  const double median = *middle, largest = *std::max_element(errors.begin(), errors.end());
  return "; the error is " + number(median) + " of the scale A* in the middle and " + number(largest) +
         " at most";
}

}  // namespace

std::string indices_text(const std::vector<std::int64_t>& indices, std::int64_t count) {
  const auto size = static_cast<std::int64_t>(indices.size());
  if (size == count) return "all";
  if (size >= 3) {
    const std::int64_t step = indices[1] - indices[0];
    bool even = step > 1;
    for (std::size_t i = 1; i < indices.size(); ++i) even = even && indices[i] - indices[i - 1] == step;
    if (even && indices.front() < step && indices.back() + step >= count)
      return "every " + ordinal(step) + " from " + number(indices.front());
  }
  std::string text;
  std::int64_t ranges = 0;
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t last = i;
    while (last + 1 < indices.size() && indices[last + 1] == indices[last] + 1) ++last;
    if (++ranges > 4) return text + " and " + number(size - static_cast<std::int64_t>(i)) + " others";
    text += (text.empty() ? "" : ", ") + number(indices[i]);
    if (last > i) text += (last == i + 1 ? ", " : "..") + number(indices[last]);
    i = last + 1;
  }
  return text;
}

std::string describe_pattern(const Call& call) {
  const Problem& p = call.problem();
  const Extent extent = extent_of(call);
  if (extent.wrong_elements == 0) return "no element is wrong";
  std::string text;
  if (extent.wrong_elements == extent.elements)
    text = "every element is wrong";
  else
    text = number(extent.wrong_elements) + " of " + number(extent.elements) + " elements are wrong";
  const auto axis = [&](const char* name, const std::vector<std::int64_t>& wrong, std::int64_t count) {
    if (count > 1) text += std::string(", ") + name + " " + indices_text(wrong, count);
  };
  if (extent.wrong_elements != extent.elements) {
    axis("batch elements", extent.batches, p.batch);
    axis("heads", extent.heads, p.query_heads);
    axis("rows", extent.rows, p.query_len);
    text += tile_text(extent.rows, p.query_len);
    axis("dimensions", extent.dims, p.value_dim);
  }
  if (extent.nan + extent.infinite == extent.wrong_elements) {
    text += extent.infinite == 0 ? "; all of these are NaN"
            : extent.nan == 0    ? "; all of these are infinite"
                                 : "; none of these is finite";
  } else {
    if (extent.nan) text += "; " + number(extent.nan) + " are NaN";
    if (extent.infinite) text += "; " + number(extent.infinite) + " are infinite";
    text += size_text(extent.errors) + factor_text(call);
  }
  return text;
}

ErrorMap error_map(const Call& call) {
  ErrorMap map;
  const std::int64_t rows = call.row_count(), columns = call.value_dim();
  if (rows == 0 || columns == 0) return map;
  map.query_len = call.problem().query_len;
  map.rows_per_cell = (rows + most_map_rows - 1) / most_map_rows;
  // Cells of a power of two of rows show tiles as they are.
  std::int64_t power = 1;
  while (power < map.rows_per_cell) power *= 2;
  map.rows_per_cell = power;
  map.columns_per_cell = (columns + most_map_columns - 1) / most_map_columns;
  map.rows = (rows + map.rows_per_cell - 1) / map.rows_per_cell;
  map.columns = (columns + map.columns_per_cell - 1) / map.columns_per_cell;
  map.gate_fraction.assign(static_cast<std::size_t>(map.rows * map.columns), 0.0f);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      float& cell = map.gate_fraction[static_cast<std::size_t>(r / map.rows_per_cell * map.columns +
                                                               c / map.columns_per_cell)];
      cell = std::max(cell, static_cast<float>(call.gate_fraction(r, c, call.out(r)[c])));
    }
  return map;
}

std::string ErrorMap::text() const {
  std::string text = "row          dimension 0.." + number(columns * columns_per_cell - 1) + "\n";
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t row = r * rows_per_cell;
    // Heads are counted over the whole batch.
    char label[64];
    if (query_len > 0 && row >= query_len)
      std::snprintf(label, sizeof label, "h%lld %-9lld ", static_cast<long long>(row / query_len),
                    static_cast<long long>(row % query_len));
    else
      std::snprintf(label, sizeof label, "%-12lld ", static_cast<long long>(row));
    text += label;
    for (std::int64_t c = 0; c < columns; ++c) {
      const float fraction = gate_fraction[static_cast<std::size_t>(r * columns + c)];
      text += std::isinf(fraction) ? 'N' : fraction > 100 ? '#' : fraction > 1 ? '+' : '.';
    }
    text += "\n";
  }
  return text + ". right   + wrong   # wrong by more than 100 bounds   N not finite (one cell: " +
         number(rows_per_cell) + " x " + number(columns_per_cell) + " elements)";
}

}  // namespace runmax::diagnosis
