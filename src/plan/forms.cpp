#include "plan/forms.hpp"

#include <algorithm>
#include <string>

namespace runmax {
namespace {

std::int32_t value(const TensorView& view, std::int64_t row, std::int64_t column) {
  return static_cast<const std::int32_t*>(view.data)[row * view.strides[0] + column * view.strides[3]];
}

// A table of integers that the form of a problem needs, or must not have.
Status check_form(const char* name, const TensorView& view, bool asked, const Shape4& shape, const Problem& p,
                  Device device) {
  if (asked) return check_view(name, view, DType::i32, shape, device);
  if (view.data == nullptr) return {};
  return invalid(name, "was given, but the problem " + to_text(p) + " does not use it");
}

}  // namespace

Status check_form_views(const Problem& p, const Tensors& t, const OperandShapes& shapes, Device device) {
  if (Status status = check_form("page_table", t.page_table, p.page_size > 0, shapes.page_table, p, device);
      !status.ok())
    return status;
  return check_form("kv_lengths", t.kv_lengths, p.seqused, shapes.kv_lengths, p, device);
}

OperandShapes operand_shapes(const Problem& p, const Tensors& t) {
  std::int64_t batch = p.batch, queries = p.query_len, keys = p.kv_len;
  if (!p.varlen.empty()) {
    batch = 1;
    queries = keys = 0;
    for (const SequenceLengths& lengths : p.varlen) {
      queries += lengths.query_len;
      keys += lengths.kv_len;
    }
  }
  OperandShapes shapes;
  shapes.q = {batch, p.query_heads, queries, p.head_dim};
  shapes.o = {batch, p.query_heads, queries, p.value_dim};
  shapes.lse = {batch, p.query_heads, queries, 1};
  const bool paged = p.page_size > 0;
  const std::int64_t kv_batch = paged ? t.k.shape[0] : batch, rows = paged ? p.page_size : keys;
  shapes.k = {kv_batch, p.kv_heads, rows, p.head_dim};
  shapes.v = {kv_batch, p.kv_heads, rows, p.value_dim};
  shapes.page_table = paged ? Shape4{p.batch, 1, 1, t.page_table.shape[3]} : Shape4{};
  shapes.kv_lengths = p.seqused ? Shape4{p.batch, 1, 1, 1} : Shape4{};
  return shapes;
}

void take_operand_sizes(const Tensors& t, Problem& p) {
  p.dtype = t.q.dtype;
  p.query_heads = t.q.heads();
  p.head_dim = t.q.dim();
  p.kv_heads = t.k.heads();
  p.value_dim = t.v.dim();
  p.seqused = p.seqused || t.kv_lengths.data != nullptr;
  if (t.page_table.data != nullptr) p.page_size = t.k.length();
  if (p.varlen.empty()) {
    p.batch = t.q.batch();
    p.query_len = t.q.length();
    // Pages hold at least as many keys as are used; how many, only the caller knows.
    if (p.page_size == 0)
      p.kv_len = t.k.length();
    else if (p.kv_len == 0)
      p.kv_len = t.page_table.dim() * p.page_size;
    return;
  }
  p.batch = static_cast<std::int64_t>(p.varlen.size());
  p.query_len = p.kv_len = 0;
  for (const SequenceLengths& lengths : p.varlen) {
    p.query_len = std::max(p.query_len, lengths.query_len);
    p.kv_len = std::max(p.kv_len, lengths.kv_len);
  }
}

Status check_form_values(const Problem& p, const Tensors& t, FormValues values) {
  if (!p.seqused && p.page_size == 0) return {};
  const bool readable = values == FormValues::readable;
  if (!readable && p.seqused) return {};
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const auto fail = [](const std::string& message) { return Status(StatusCode::invalid_argument, message); };
  for (std::int64_t b = 0; b < p.batch; ++b) {
    std::int64_t length = p.varlen.empty() ? p.kv_len : p.varlen[static_cast<std::size_t>(b)].kv_len;
    if (p.seqused) {  // readable
      const std::int64_t used = value(t.kv_lengths, b, 0);
      if (used < 0 || used > length)
        return fail("kv_lengths: batch element " + number(b) + " must be at least 0 and at most its kv_len " +
                    number(length) + ", got " + number(used));
      length = used;
    }
    if (p.page_size == 0) continue;
    const std::int64_t columns = t.page_table.dim(), pages = t.k.batch();
    const std::int64_t used = length / p.page_size + (length % p.page_size != 0);
    if (used > columns)
      return fail("page_table: row " + number(b) + " has room for " + number(columns) + " pages of " +
                  number(p.page_size) + " keys, and batch element " + number(b) +
                  " has more: " + number(length) + " > " + number(columns * p.page_size));
    for (std::int64_t c = 0; readable && c < used; ++c) {
      const std::int64_t page = value(t.page_table, b, c);
      if (page < 0 || page >= pages)
        return fail("page_table: row " + number(b) + ", column " + number(c) +
                    " must be at least 0 and below " + number(pages) + ", the number of pages, got " +
                    number(page));
    }
  }
  return {};
}

}  // namespace runmax
