// Mistakes in where things lie: transposed matrices, mixed up heads, rows and dimensions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>

#include "judge/diagnosis/fit.hpp"
#include "judge/diagnosis/hypothesis.hpp"

namespace runmax::diagnosis {
namespace {

// The right arithmetic on other rows of Q, K and V than the right ones.
void attend(const RowInputs& row, const float* q, const std::vector<float>& k, const std::vector<float>& v,
            Prediction& prediction) {
  const std::vector<float> scores =
      scores_of(q, k.data(), row.kv_len(), row.head_dim(), static_cast<float>(row.call->scale()));
  mix(softmax_weights(scores, row.keys), v.data(), row.value_dim(), prediction);
}

// What stands at (row, channel) if a (rows, channels) matrix is read as (channels, rows).
std::vector<float> read_transposed(const float* matrix, std::int64_t rows, std::int64_t channels) {
  std::vector<float> read(static_cast<std::size_t>(rows * channels));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < channels; ++c)
      read[static_cast<std::size_t>(r * channels + c)] = matrix[c * rows + r];
  return read;
}

// A matrix that was read in a wrong way once, for all rows that ask again.
class Remembered {
 public:
  const std::vector<float>& transposed(const float* matrix, std::int64_t rows, std::int64_t channels) {
    auto [at, is_new] = matrices_.try_emplace({matrix, rows});
    if (is_new) at->second = read_transposed(matrix, rows, channels);
    return at->second;
  }

 private:
  std::map<std::pair<const float*, std::int64_t>, std::vector<float>> matrices_;
};

void add_transposed(Hypotheses& list) {
  list.push_back({find_mistake("key-transposed"), "",
                  [memory = Remembered()](const RowInputs& row, Prediction& prediction) mutable {
                    if (row.keys.begin == row.keys.end) return false;
                    const std::vector<float>& k = memory.transposed(row.k, row.kv_len(), row.head_dim());
                    const std::vector<float> scores = scores_of(row.q, k.data(), row.kv_len(), row.head_dim(),
                                                                static_cast<float>(row.call->scale()));
                    mix(softmax_weights(scores, row.keys), row.v, row.value_dim(), prediction);
                    return true;
                  }});
  list.push_back({find_mistake("value-transposed"), "",
                  [memory = Remembered()](const RowInputs& row, Prediction& prediction) mutable {
                    if (row.keys.begin == row.keys.end) return false;
                    const std::vector<float>& v = memory.transposed(row.v, row.kv_len(), row.value_dim());
                    mix(softmax_weights(row.scores, row.keys), v.data(), row.value_dim(), prediction);
                    return true;
                  }});
}

// Query head h of batch element b reads another KV head than its own.
void add_kv_heads(Hypotheses& list) {
  const auto add = [&](const std::string& parameters, auto other) {
    list.push_back(
        {find_mistake("heads-swapped"), parameters, [other](const RowInputs& row, Prediction& prediction) {
           const Place right{row.place.batch, row.call->kv_head(row.place.head), 0};
           const Place wrong = other(row.call->problem(), row.place);
           if ((right.batch == wrong.batch && right.head == wrong.head) || row.keys.begin == row.keys.end)
             return false;
           const Problem& p = row.call->problem();
           const std::vector<float> scores = scores_of(row.q, row.call->k(wrong.batch, wrong.head), p.kv_len,
                                                       p.head_dim, static_cast<float>(row.call->scale()));
           mix(softmax_weights(scores, row.keys), row.call->v(wrong.batch, wrong.head), p.value_dim,
               prediction);
           return true;
         }});
  };
  add("query head h reads KV head h % kv_heads", [](const Problem& p, Place place) {
    return Place{place.batch, place.head % p.kv_heads, 0};
  });
  add("every query head reads KV head 0", [](const Problem&, Place place) {
    return Place{place.batch, 0, 0};
  });
  add("every batch element reads K and V of the first", [](const Problem& p, Place place) {
    return Place{0, place.head / (p.query_heads / p.kv_heads), 0};
  });
  add("a query head reads its neighbour's K and V", [](const Problem& p, Place place) {
    const std::int64_t head = place.head / (p.query_heads / p.kv_heads) ^ 1;
    return Place{place.batch, head < p.kv_heads ? head : head ^ 1, 0};
  });
}

// (batch, heads, length, dim) memory taken as (batch, length, heads, dim): where row `i` of a head is read.
const float* row_of_other_layout(const float* data, std::int64_t heads, std::int64_t length, std::int64_t dim,
                                 std::int64_t batch, std::int64_t head, std::int64_t i) {
  return data + ((batch * length + i) * heads + head) * dim;
}

void add_other_layout(Hypotheses& list) {
  list.push_back(
      {find_mistake("heads-swapped"), "q, k, v and o are taken as (batch, length, heads, dim)",
       [](const RowInputs& row, Prediction& prediction) {
         const Problem& p = row.call->problem();
         const Evidence& e = row.call->evidence();
         if (p.query_heads == 1 && p.kv_heads == 1) return false;
         // The row whose answer such a kernel puts here.
         const std::int64_t flat =
             row.call->row_at(row.place) - row.place.batch * p.query_heads * p.query_len;
         const std::int64_t i = flat / p.query_heads, head = flat % p.query_heads;
         const std::int64_t kv_head = row.call->kv_head(head);
         std::vector<float> k, v;
         for (std::int64_t j = 0; j < p.kv_len; ++j) {
           const float* key =
               row_of_other_layout(e.k, p.kv_heads, p.kv_len, p.head_dim, row.place.batch, kv_head, j);
           k.insert(k.end(), key, key + p.head_dim);
           const float* value =
               row_of_other_layout(e.v, p.kv_heads, p.kv_len, p.value_dim, row.place.batch, kv_head, j);
           v.insert(v.end(), value, value + p.value_dim);
         }
         RowInputs other = row;
         other.place.row = i;
         other.keys = row.call->keys(i);
         if (other.keys.begin == other.keys.end) return false;
         attend(other,
                row_of_other_layout(e.q, p.query_heads, p.query_len, p.head_dim, row.place.batch, head, i), k,
                v, prediction);
         return true;
       }});
}

// A rule by which the answers of the rows of a call have changed places: what stands at a place is the answer
// of to(problem, place). None: the place is right.
struct RowRule {
  std::string_view mistake;
  const char* text;
  std::optional<Place> (*to)(const Problem&, Place);
};

std::optional<Place> inside(const Problem& p, Place place) {
  if (place.row < 0 || place.row >= p.query_len || place.head < 0 || place.head >= p.query_heads ||
      place.batch < 0 || place.batch >= p.batch)
    return std::nullopt;
  return place;
}

constexpr RowRule row_rules[] = {
    {"heads-swapped", "the place of head h holds the answer of its neighbour",
     [](const Problem& p, Place at) {
       return inside(p, {at.batch, at.head ^ 1, at.row});
     }},
    {"heads-swapped", "the place of head h holds the answer of head h + 1",
     [](const Problem& p, Place at) {
       return inside(p, {at.batch, (at.head + 1) % p.query_heads, at.row});
     }},
    {"heads-swapped", "the place of head h holds the answer of head h - 1",
     [](const Problem& p, Place at) {
       return inside(p, {at.batch, (at.head + p.query_heads - 1) % p.query_heads, at.row});
     }},
    {"heads-swapped", "heads stand in reverse",
     [](const Problem& p, Place at) {
       return inside(p, {at.batch, p.query_heads - 1 - at.head, at.row});
     }},
    {"heads-swapped", "every head holds the answer of head 0",
     [](const Problem& p, Place at) {
       return inside(p, {at.batch, 0, at.row});
     }},
    {"heads-swapped", "batch elements are in each other's place",
     [](const Problem& p, Place at) {
       return inside(p, {p.batch - 1 - at.batch, at.head, at.row});
     }},
    {"heads-swapped", "o is written as (batch, length, heads, dim)",
     [](const Problem& p, Place at) {
       const std::int64_t flat = at.head * p.query_len + at.row;
       return inside(p, {at.batch, flat % p.query_heads, flat / p.query_heads});
     }},
    {"rows-swapped", "two neighbouring rows are exchanged",
     [](const Problem& p, Place at) {
       return inside(p, {at.batch, at.head, at.row ^ 1});
     }},
    {"rows-swapped", "row i holds the answer of query i + 1",
     [](const Problem& p, Place at) {
       return inside(p, {at.batch, at.head, (at.row + 1) % p.query_len});
     }},
    {"rows-swapped", "row i holds the answer of query i - 1",
     [](const Problem& p, Place at) {
       return inside(p, {at.batch, at.head, (at.row + p.query_len - 1) % p.query_len});
     }},
    {"rows-swapped", "rows stand in reverse",
     [](const Problem& p, Place at) {
       return inside(p, {at.batch, at.head, p.query_len - 1 - at.row});
     }},
};

void add_row_rules(Hypotheses& list) {
  for (const RowRule& rule : row_rules)
    list.push_back(
        {find_mistake(rule.mistake), rule.text, [&rule](const RowInputs& row, Prediction& prediction) {
           const std::optional<Place> other = rule.to(row.call->problem(), row.place);
           if (!other) return false;
           const std::int64_t r = row.call->row_at(*other);
           if (r == row.call->row_at(row.place)) return false;
           const std::vector<double>& out = row.call->want(r).out;
           prediction.out.assign(out.begin(), out.end());
           return true;
         }});
}

// A rule by which dimensions have changed places.
void add_dimension_rules(Hypotheses& list) {
  const auto add = [&](const std::string& parameters, auto dimension_at) {
    list.push_back({find_mistake("dimensions-swapped"), parameters,
                    [dimension_at](const RowInputs& row, Prediction& prediction) {
                      const std::int64_t dims = row.value_dim();
                      const std::vector<double>& out = row.call->want(row.call->row_at(row.place)).out;
                      prediction.out.resize(static_cast<std::size_t>(dims));
                      bool changed = false;
                      for (std::int64_t c = 0; c < dims; ++c) {
                        const std::int64_t from = dimension_at(c, dims);
                        if (from < 0 || from >= dims) return false;
                        changed |= from != c;
                        prediction.out[static_cast<std::size_t>(c)] =
                            static_cast<float>(out[static_cast<std::size_t>(from)]);
                      }
                      return changed;
                    }});
  };
  add("neighbours exchanged", [](std::int64_t c, std::int64_t) { return c ^ 1; });
  add("in reverse", [](std::int64_t c, std::int64_t dims) { return dims - 1 - c; });
  add("the two halves exchanged",
      [](std::int64_t c, std::int64_t dims) { return dims % 2 == 0 ? (c + dims / 2) % dims : c; });
  for (const std::int64_t lanes : {2, 4, 8, 16, 32}) {
    char text[80];
    const int count = static_cast<int>(lanes);
    std::snprintf(text, sizeof text, "column c holds dimension (c %% %d) * dv/%d + c/%d", count, count,
                  count);
    add(text, [lanes](std::int64_t c, std::int64_t dims) {
      return dims % lanes == 0 ? c % lanes * (dims / lanes) + c / lanes : c;
    });
  }
}

// For each column of the wrong answers the dimension of the right ones that it repeats, if every one has one.
std::vector<std::int64_t> column_sources(const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    if (!call.anything_wrong()) continue;
    const std::vector<std::int64_t> rows = call.sample(32, 0);
    if (rows.size() < 4) return {};
    std::vector<std::int64_t> sources;
    bool moved = false;
    for (std::int64_t c = 0; c < call.value_dim(); ++c) {
      std::int64_t source = -1;
      for (std::int64_t from = 0; from < call.value_dim() && source < 0; ++from) {
        bool same = true;
        for (const std::int64_t r : rows) {
          const double want = call.want(r).out[static_cast<std::size_t>(from)];
          same = same && distance(call.out(r)[c], want, call.error_scale(r, from)) <= call.tolerance(r);
        }
        if (same) source = from;
      }
      if (source < 0) return {};
      moved |= source != c;
      sources.push_back(source);
    }
    return moved ? sources : std::vector<std::int64_t>();
  }
  return {};
}

// For each wrong row of the calls the row whose answer it holds.
std::int64_t row_source(const Call& call, std::int64_t r) {
  for (std::int64_t other = 0; other < call.row_count(); ++other) {
    bool same = other != r;
    for (std::int64_t c = 0; same && c < call.value_dim(); ++c)
      same = distance(call.out(r)[c], call.want(other).out[static_cast<std::size_t>(c)],
                      call.error_scale(other, c)) <= call.tolerance(other);
    if (same) return other;
  }
  return -1;
}

}  // namespace

void add_layouts(Hypotheses& list) {
  add_transposed(list);
  add_kv_heads(list);
  add_other_layout(list);
  add_row_rules(list);
  add_dimension_rules(list);
}

void add_permutations(Hypotheses& list, const std::vector<Call>& calls) {
  // One row for all: the mean of a few.
  for (const Call& call : calls) {
    if (!call.anything_wrong() || call.row_count() < 4) continue;
    const std::vector<std::int64_t> rows = call.sample(8, 0);
    std::vector<float> mean(static_cast<std::size_t>(call.value_dim()), 0.0f);
    for (const std::int64_t r : rows)
      for (std::size_t c = 0; c < mean.size(); ++c)
        mean[c] += call.out(r)[c] / static_cast<float>(rows.size());
    const bool finite =
        std::all_of(mean.begin(), mean.end(), [](float value) { return std::isfinite(value); });
    if (rows.size() < 4 || !finite) break;
    list.push_back(
        {find_mistake("output-constant"), "", [mean](const RowInputs& row, Prediction& prediction) {
           if (static_cast<std::size_t>(row.value_dim()) != mean.size()) return false;
           prediction.out = mean;
           return true;
         }});
    break;
  }
  if (const std::vector<std::int64_t> sources = column_sources(calls); !sources.empty()) {
    std::string text = "columns 0, 1, 2, ... hold dimensions";
    for (std::size_t c = 0; c < std::min<std::size_t>(sources.size(), 4); ++c)
      text += (c ? ", " : " ") + std::to_string(sources[c]);
    list.push_back({find_mistake("dimensions-swapped"), text + ", ...",
                    [sources](const RowInputs& row, Prediction& prediction) {
                      if (static_cast<std::size_t>(row.value_dim()) != sources.size()) return false;
                      const std::vector<double>& out = row.call->want(row.call->row_at(row.place)).out;
                      for (const std::int64_t from : sources)
                        prediction.out.push_back(static_cast<float>(out[static_cast<std::size_t>(from)]));
                      return true;
                    }});
  }
  // Rows without a rule: each holds the answer of some other.
  std::string text;
  for (const Call& call : calls)
    if (call.anything_wrong() && text.empty()) {
      const std::int64_t r = call.sample(1, 0).front();
      const std::int64_t source = row_source(call, r);
      if (source < 0) return;
      text = "row " + std::to_string(call.place(r).row) + " holds the answer of query " +
             std::to_string(call.place(source).row);
    }
  list.push_back({find_mistake("rows-swapped"), text, [](const RowInputs& row, Prediction& prediction) {
                    const std::int64_t r = row.call->row_at(row.place);
                    if (!row.call->wrong(r)) return false;
                    const std::int64_t source = row_source(*row.call, r);
                    if (source < 0) return false;
                    const std::vector<double>& out = row.call->want(source).out;
                    prediction.out.assign(out.begin(), out.end());
                    return true;
                  }});
}

}  // namespace runmax::diagnosis
