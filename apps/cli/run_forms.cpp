#include "cli/run_forms.hpp"

#include <algorithm>
#include <limits>

#include "files/npy.hpp"

namespace runmax::cli {
namespace {

std::string number(std::int64_t n) { return std::to_string(n); }

Status broken(const std::string& source, const std::string& rule) {
  return {StatusCode::invalid_argument, source + ": " + rule};
}

// The lengths of sequences that are cut at these rows.
Result<std::vector<std::int64_t>> lengths_of(const NamedIntegers& cuts, std::int64_t rows, const char* of) {
  const std::vector<std::int64_t>& at = cuts.array.values;
  if (cuts.array.shape.size() != 1 || at.empty())
    return broken(cuts.source,
                  "must have 1 dimension with one number more than there are sequences, got shape " +
                      files::shape_text(cuts.array.shape));
  if (at.front() != 0) return broken(cuts.source, "must begin with 0, got " + number(at.front()));
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 1; i < at.size(); ++i) {
    if (at[i] < at[i - 1])
      return broken(cuts.source, "must not decrease, got " + number(at[i]) + " after " + number(at[i - 1]) +
                                     " at index " + number(static_cast<std::int64_t>(i)));
    lengths.push_back(at[i] - at[i - 1]);
  }
  if (at.back() != rows)
    return broken(cuts.source, "must end with the number of rows of " + std::string(of) + ", " +
                                   number(rows) + ", got " + number(at.back()));
  return lengths;
}

Status take_paged_shapes(const NamedArray& q, const NamedArray& k, const NamedArray& v, Layout layout,
                         Problem& problem) {
  const std::size_t rank = q.array.shape.size();
  if (rank < 2 || rank > 4)
    return broken(q.source, "q must have 2, 3 or 4 dimensions, got " + std::to_string(rank) + ": " +
                                files::shape_text(q.array.shape));
  for (const NamedArray* array : {&k, &v})
    if (array->array.shape.size() != 4)
      return broken(array->source,
                    "with --page-table it must have 4 dimensions, " +
                        std::string(layout == Layout::bshd ? "(pages, page size, heads, dim)"
                                                           : "(pages, heads, page size, dim)") +
                        ", got " + files::shape_text(array->array.shape));
  const auto shape_q = canonical_shape(q.array.shape, layout);
  const auto shape_k = canonical_shape(k.array.shape, layout);
  const auto shape_v = canonical_shape(v.array.shape, layout);
  if (!std::equal(shape_k.begin(), shape_k.begin() + 3, shape_v.begin()))
    return broken(v.source, "v must have the pages, page size and heads of k, got " +
                                files::shape_text(v.array.shape) + " and " +
                                files::shape_text(k.array.shape));
  if (shape_k[3] != shape_q[3])
    return broken(k.source, "the head dimension of k must equal that of q, got " + number(shape_k[3]) +
                                " and " + number(shape_q[3]));
  if (shape_k[1] == 0 ? shape_q[1] != 0 : shape_q[1] % shape_k[1] != 0)
    return broken(k.source, "the number of heads of k must divide that of q, got " + number(shape_k[1]) +
                                " and " + number(shape_q[1]));
  if (shape_k[2] < 1) return broken(k.source, "a page must have room for at least 1 key, got 0");
  problem.batch = shape_q[0];
  problem.query_heads = shape_q[1];
  problem.kv_heads = shape_k[1];
  problem.query_len = shape_q[2];
  problem.head_dim = shape_q[3];
  problem.value_dim = shape_v[3];
  problem.page_size = shape_k[2];
  return {};
}

// An array's elements, whichever vector they are in.
template <class Number>
const std::vector<Number>& elements(const NamedArray& array);
template <>
const std::vector<float>& elements<float>(const NamedArray& array) {
  return array.array.values;
}
template <>
const std::vector<double>& elements<double>(const NamedArray& array) {
  return array.array.wide;
}

// One row of an array of that layout.
template <class Number>
const Number* row_of(const NamedArray& array, Layout layout, std::int64_t b, std::int64_t h, std::int64_t i) {
  const auto [batch, heads, length, dim] = canonical_shape(array.array.shape, layout);
  const std::int64_t row =
      layout == Layout::bshd ? (b * length + i) * heads + h : (b * heads + h) * length + i;
  return elements<Number>(array).data() + row * dim;
}

template <class Number>
Gathered<Number> gather_as(const Problem& p, Layout layout, const NamedArray& q, const NamedArray& k,
                           const NamedArray& v, const FormTensors& forms) {
  Gathered<Number> data;
  const bool packed = !p.varlen.empty(), paged = p.page_size > 0;
  if (packed || p.seqused) {
    data.lengths = p.varlen;
    if (!packed) data.lengths.assign(static_cast<std::size_t>(p.batch), {p.query_len, p.kv_len});
    for (std::size_t b = 0; p.seqused && b < data.lengths.size(); ++b)
      data.lengths[b].kv_len = forms.seqused[b];
  }
  const auto lengths_at = [&](std::int64_t b) {
    return data.lengths.empty() ? SequenceLengths{p.query_len, p.kv_len}
                                : data.lengths[static_cast<std::size_t>(b)];
  };
  const auto gathered = [&](const NamedArray& array, std::int64_t heads, std::int64_t room, std::int64_t dim,
                            bool keys) {
    const Number unused = std::numeric_limits<Number>::quiet_NaN();
    std::vector<Number> to(static_cast<std::size_t>(p.batch * heads * room * dim), unused);
    std::int64_t start = 0;
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const std::int64_t length = keys ? lengths_at(b).kv_len : lengths_at(b).query_len;
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < length; ++i) {
          const Number* from = nullptr;
          if (keys && paged) {
            const auto columns = static_cast<std::int64_t>(forms.page_table.size()) / p.batch;
            const std::int64_t page =
                forms.page_table[static_cast<std::size_t>(b * columns + i / p.page_size)];
            from = row_of<Number>(array, layout, page, h, i % p.page_size);
          } else {
            from = row_of<Number>(array, layout, packed ? 0 : b, h, start + i);
          }
          std::copy_n(from, dim, to.begin() + ((b * heads + h) * room + i) * dim);
        }
      if (packed)
        start += keys ? p.varlen[static_cast<std::size_t>(b)].kv_len
                      : p.varlen[static_cast<std::size_t>(b)].query_len;
    }
    return to;
  };
  data.q = gathered(q, p.query_heads, p.query_len, p.head_dim, false);
  data.k = gathered(k, p.kv_heads, p.kv_len, p.head_dim, true);
  data.v = gathered(v, p.kv_heads, p.kv_len, p.value_dim, true);
  return data;
}

}  // namespace

std::vector<std::pair<const char*, const std::string*>> form_paths(const RunArguments& a) {
  return {{"--cu-seqlens-q", &a.cu_seqlens_q},
          {"--cu-seqlens-k", &a.cu_seqlens_k},
          {"--page-table", &a.page_table},
          {"--seqused", &a.seqused}};
}

Result<FormArrays> read_forms(const RunArguments& a, const std::vector<files::TensorEntry>* tensors) {
  FormArrays forms;
  std::optional<NamedIntegers>* const targets[] = {&forms.cu_seqlens_q, &forms.cu_seqlens_k,
                                                   &forms.page_table, &forms.seqused};
  std::size_t next = 0;
  for (const auto& [option, name] : form_paths(a)) {
    std::optional<NamedIntegers>* const target = targets[next++];
    if (name->empty()) continue;
    Result<files::IntegerArray> array =
        tensors ? files::tensor_to_integers(*tensors, *name) : files::read_npy_integers(*name);
    if (!array.ok())
      return Status(array.status().code(), std::string(option) + (tensors ? ": --in " + a.in + ": " : " ") +
                                               array.status().message());
    *target = NamedIntegers{std::string(option) + " " + *name, std::move(array).value()};
  }
  return forms;
}

Status take_forms(const FormArrays& forms, const NamedArray& q, const NamedArray& k, const NamedArray& v,
                  Layout layout, Problem& problem) {
  const bool paged = forms.page_table.has_value();
  if (Status status =
          paged ? take_paged_shapes(q, k, v, layout, problem) : take_shapes(q, k, v, layout, problem);
      !status.ok())
    return status;

  std::int64_t columns = 0;
  if (paged) {
    const files::Shape& shape = forms.page_table->array.shape;
    if (shape.size() != 2)
      return broken(forms.page_table->source,
                    "must have 2 dimensions, (batch, columns), got " + files::shape_text(shape));
    columns = shape[1];
    problem.kv_len = columns * problem.page_size;
  }
  problem.seqused = forms.seqused.has_value();

  if (forms.cu_seqlens_k && !forms.cu_seqlens_q)
    return broken(forms.cu_seqlens_k->source, "needs --cu-seqlens-q too");
  if (forms.cu_seqlens_q) {
    if (!forms.cu_seqlens_k && !(paged && problem.seqused))
      return broken(forms.cu_seqlens_q->source, "needs --cu-seqlens-k, or --page-table with --seqused");
    if (problem.batch != 1)
      return broken(q.source, "with --cu-seqlens-q the batch is packed into one, got a batch of " +
                                  number(problem.batch));
    Result<std::vector<std::int64_t>> queries = lengths_of(*forms.cu_seqlens_q, problem.query_len, "q");
    if (!queries.ok()) return queries.status();
    std::vector<std::int64_t> keys(queries.value().size(), problem.kv_len);
    if (forms.cu_seqlens_k) {
      // Pages hold the rows of k in no order: their number says nothing.
      const std::vector<std::int64_t>& cuts = forms.cu_seqlens_k->array.values;
      Result<std::vector<std::int64_t>> lengths =
          lengths_of(*forms.cu_seqlens_k, paged && !cuts.empty() ? cuts.back() : problem.kv_len, "k");
      if (!lengths.ok()) return lengths.status();
      keys = lengths.value();
    }
    if (keys.size() != queries.value().size())
      return broken(forms.cu_seqlens_k->source, "must have as many numbers as --cu-seqlens-q, got " +
                                                    std::to_string(keys.size() + 1) + " and " +
                                                    std::to_string(queries.value().size() + 1));
    if (keys.empty()) return broken(forms.cu_seqlens_q->source, "holds no sequence");
    problem.batch = static_cast<std::int64_t>(keys.size());
    problem.query_len = problem.kv_len = 0;
    for (std::size_t s = 0; s < keys.size(); ++s) {
      problem.varlen.push_back({queries.value()[s], keys[s]});
      problem.query_len = std::max(problem.query_len, queries.value()[s]);
      problem.kv_len = std::max(problem.kv_len, keys[s]);
    }
  }
  if (paged && forms.page_table->array.shape[0] != problem.batch)
    return broken(forms.page_table->source, "must have a row for each of the " + number(problem.batch) +
                                                " batch elements, got " +
                                                files::shape_text(forms.page_table->array.shape));
  if (problem.seqused && forms.seqused->array.shape != files::Shape{problem.batch})
    return broken(forms.seqused->source, "must have one number for each of the " + number(problem.batch) +
                                             " batch elements, got shape " +
                                             files::shape_text(forms.seqused->array.shape));
  return {};
}

Result<FormTensors> form_tensors(const FormArrays& forms) {
  FormTensors tensors;
  for (const auto& [array, target] :
       {std::pair(&forms.page_table, &tensors.page_table), std::pair(&forms.seqused, &tensors.seqused)}) {
    if (!*array) continue;
    for (const std::int64_t value : (*array)->array.values) {
      if (value < std::numeric_limits<std::int32_t>::min() ||
          value > std::numeric_limits<std::int32_t>::max())
        return broken((*array)->source, "holds " + number(value) + ", beyond the range of i32");
      target->push_back(static_cast<std::int32_t>(value));
    }
  }
  return tensors;
}

void set_form_views(const Problem& p, const FormTensors& storage, void* page_table, void* seqused,
                    Device device, Tensors& tensors) {
  if (p.page_size > 0) {
    const auto columns = p.batch == 0 ? 0 : static_cast<std::int64_t>(storage.page_table.size()) / p.batch;
    tensors.page_table = packed_view(page_table, DType::i32, {p.batch, 1, 1, columns}, Layout::bhsd, device);
  }
  if (p.seqused)
    tensors.kv_lengths = packed_view(seqused, DType::i32, {p.batch, 1, 1, 1}, Layout::bhsd, device);
}

Gathered<float> gather(const Problem& p, Layout layout, const NamedArray& q, const NamedArray& k,
                       const NamedArray& v, const FormTensors& forms) {
  return gather_as<float>(p, layout, q, k, v, forms);
}

Gathered<double> gather_wide(const Problem& p, Layout layout, const NamedArray& q, const NamedArray& k,
                             const NamedArray& v, const FormTensors& forms) {
  return gather_as<double>(p, layout, q, k, v, forms);
}

}  // namespace runmax::cli
