#include "check/forms.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "check/double_judge.hpp"
#include "inputs/random.hpp"

namespace runmax::check {
namespace {

constexpr float unused = std::numeric_limits<float>::quiet_NaN();
constexpr float no_page = -7.0f;
constexpr std::int64_t spare_pages = 3;

// Rows [0, length) of a head of drawn data, which has room for `room` of them.
const float* head_of(const std::vector<float>& drawn, std::int64_t heads, std::int64_t room, std::int64_t dim,
                     std::int64_t b, std::int64_t h) {
  return drawn.data() + (b * heads + h) * room * dim;
}

HostTensor filled(std::array<std::int64_t, 4> shape, float value) {
  HostTensor tensor = packed_tensor(shape);
  std::fill(tensor.storage.begin(), tensor.storage.end(), value);
  return tensor;
}

// Sequence behind sequence, (1, heads, rows, dim).
HostTensor packed_sequences(const std::vector<float>& drawn, std::int64_t heads, std::int64_t room,
                            std::int64_t dim, const std::vector<std::int64_t>& lengths) {
  HostTensor tensor = packed_tensor({1, heads, std::reduce(lengths.begin(), lengths.end()), dim});
  std::int64_t start = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    for (std::int64_t h = 0; h < heads; ++h)
      std::copy_n(head_of(drawn, heads, room, dim, static_cast<std::int64_t>(b), h), lengths[b] * dim,
                  tensor.storage.begin() + tensor.index(0, h, start, 0));
    start += lengths[b];
  }
  return tensor;
}

// The pool that a page table points into.
HostTensor pool_of(const Problem& p, const std::vector<float>& drawn, std::int64_t dim,
                   const std::vector<SequencePlace>& places, const HostTensor& table, std::int64_t pages) {
  HostTensor pool = filled({pages, p.kv_heads, p.page_size, dim}, unused);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.kv_heads; ++h) {
      const float* row = head_of(drawn, p.kv_heads, p.kv_len, dim, b, h);
      for (std::int64_t j = 0; j < places[static_cast<std::size_t>(b)].lengths.kv_len; ++j, row += dim) {
        const auto page = static_cast<std::int64_t>(table.at(b, 0, 0, j / p.page_size));
        std::copy_n(row, dim, pool.storage.begin() + pool.index(page, h, j % p.page_size, 0));
      }
    }
  return pool;
}

// Of f64: the bits that no f32 holds.
void add_low_bits(HostTensor& tensor) {
  for (const float value : tensor.storage) tensor.wide.push_back(with_low_bits(value));
}

// Mask, bias, slopes, sink and dropout's state, where the problem has them.
void add_options(const Problem& p, const inputs::HostOptions& options, HostOperands& in) {
  if (p.mask) {
    in.mask = packed_tensor(options.mask_shape, {options.mask.begin(), options.mask.end()});
    in.mask.dtype = DType::boolean;
  }
  if (p.bias) in.bias = packed_tensor(options.bias_shape, options.bias);
  const std::int64_t heads = p.query_heads;
  if (p.alibi)
    in.alibi_slopes = packed_tensor(
        {static_cast<std::int64_t>(options.alibi_slopes.size()) / heads, heads, 1, 1}, options.alibi_slopes);
  if (p.sink) in.sink = packed_tensor({1, heads, 1, 1}, options.sink);
  in.dropout = {options.dropout_seed, options.dropout_offset};
}

}  // namespace

std::vector<SequencePlace> places_of(const Problem& p, const inputs::HostInputs& drawn) {
  std::vector<SequencePlace> places(static_cast<std::size_t>(p.batch));
  SequencePlace next;
  for (std::size_t b = 0; b < places.size(); ++b) {
    places[b] = next;
    places[b].lengths = drawn.lengths.empty() ? SequenceLengths{p.query_len, p.kv_len} : drawn.lengths[b];
    if (p.varlen.empty()) continue;
    next.query_start += p.varlen[b].query_len;
    next.kv_start += p.varlen[b].kv_len;
  }
  return places;
}

namespace {

HostOperands float_operands(const Problem& p, const inputs::HostInputs& drawn) {
  HostOperands in;
  const std::vector<SequencePlace> places = places_of(p, drawn);
  if (p.varlen.empty()) {
    in.q = packed_tensor({p.batch, p.query_heads, p.query_len, p.head_dim}, drawn.q);
    in.k = packed_tensor({p.batch, p.kv_heads, p.kv_len, p.head_dim}, drawn.k);
    in.v = packed_tensor({p.batch, p.kv_heads, p.kv_len, p.value_dim}, drawn.v);
  } else {
    std::vector<std::int64_t> query_lens, kv_lens;
    for (const SequenceLengths& lengths : p.varlen) {
      query_lens.push_back(lengths.query_len);
      kv_lens.push_back(lengths.kv_len);
    }
    in.q = packed_sequences(drawn.q, p.query_heads, p.query_len, p.head_dim, query_lens);
    in.k = packed_sequences(drawn.k, p.kv_heads, p.kv_len, p.head_dim, kv_lens);
    in.v = packed_sequences(drawn.v, p.kv_heads, p.kv_len, p.value_dim, kv_lens);
  }
  if (p.seqused) {
    in.kv_lengths = packed_tensor({p.batch, 1, 1, 1});
    in.kv_lengths.dtype = DType::i32;
    for (std::int64_t b = 0; b < p.batch; ++b)
      in.kv_lengths.at(b, 0, 0) = static_cast<float>(places[static_cast<std::size_t>(b)].lengths.kv_len);
  }
  add_options(p, drawn.options, in);
  if (p.page_size == 0) return in;

  const auto pages_for = [&](std::int64_t keys) { return (keys + p.page_size - 1) / p.page_size; };
  std::int64_t pages = spare_pages;
  for (const SequencePlace& place : places) pages += pages_for(place.lengths.kv_len);
  std::vector<std::int64_t> order(static_cast<std::size_t>(pages));
  std::iota(order.begin(), order.end(), 0);
  inputs::Random random(p.seed, 0x7061676573);  // a stream of its own
  for (std::size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1],
              order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(left)))]);

  in.page_table = filled({p.batch, 1, 1, pages_for(p.kv_len) + 1}, no_page);
  in.page_table.dtype = DType::i32;
  std::size_t next = 0;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t c = 0; c < pages_for(places[static_cast<std::size_t>(b)].lengths.kv_len); ++c)
      in.page_table.at(b, 0, 0, c) = static_cast<float>(order[next++]);
  in.k = pool_of(p, drawn.k, p.head_dim, places, in.page_table, pages);
  in.v = pool_of(p, drawn.v, p.value_dim, places, in.page_table, pages);
  return in;
}

HostTensor rows_of_queries(const Problem& p, std::int64_t dim) {
  if (p.varlen.empty()) return packed_tensor({p.batch, p.query_heads, p.query_len, dim});
  std::int64_t rows = 0;
  for (const SequenceLengths& lengths : p.varlen) rows += lengths.query_len;
  return packed_tensor({1, p.query_heads, rows, dim});
}

}  // namespace

HostOperands form_operands(const Problem& p, const inputs::HostInputs& drawn) {
  HostOperands in = float_operands(p, drawn);
  if (p.dtype != DType::f64) return in;
  for (HostTensor* tensor : {&in.q, &in.k, &in.v}) add_low_bits(*tensor);
  return in;
}

HostTensor form_dout(const Problem& p, const std::vector<float>& drawn) {
  HostTensor dout;
  if (p.varlen.empty()) {
    dout = packed_tensor({p.batch, p.query_heads, p.query_len, p.value_dim}, drawn);
  } else {
    std::vector<std::int64_t> lengths;
    for (const SequenceLengths& of : p.varlen) lengths.push_back(of.query_len);
    dout = packed_sequences(drawn, p.query_heads, p.query_len, p.value_dim, lengths);
  }
  if (p.dtype == DType::f64) add_low_bits(dout);
  return dout;
}

HostTensor form_o(const Problem& p) { return rows_of_queries(p, p.value_dim); }
HostTensor form_lse(const Problem& p) { return rows_of_queries(p, 1); }

Problem element_problem(const Problem& p, const SequenceLengths& lengths) {
  Problem one = p;
  one.varlen.clear();
  one.seqused = false;
  one.page_size = 0;
  one.query_len = lengths.query_len;
  one.kv_len = lengths.kv_len;
  return one;
}

}  // namespace runmax::check
