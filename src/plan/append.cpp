// Appending to a KV cache and rotary embedding, row by row.
#include "runmax/append.hpp"

#include <cmath>
#include <cstring>
#include <string>

#include "plan/views.hpp"
#include "problem/format16.hpp"

namespace runmax {
namespace {

std::string number(std::int64_t n) { return std::to_string(n); }

// A view whose shape and type are given, in host memory.
Status check_host_view(const std::string& name, const TensorView& view, DType dtype, const Shape4& shape) {
  for (const std::int64_t size : view.shape)
    if (size < 0) return invalid(name, "shape must not be negative, got " + shape_text(view.shape));
  if (view.shape != shape)
    return invalid(name, "shape must be " + shape_text(shape) + ", got " + shape_text(view.shape));
  if (view.device.kind != DeviceKind::cpu) return invalid(name, "must lie in host memory");
  return check_memory(name, view, dtype, view.device);
}

Status check_type(const char* name, DType dtype) {
  if (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f64) return {};
  return {StatusCode::unsupported,
          std::string(name) + ": dtype is f32, f16, bf16 or f64, got " + std::string(dtype_name(dtype))};
}

Status check_rotary(const Rotary& rotary, std::int64_t head_dim) {
  if (rotary.width < 0 || rotary.width % 2 != 0)
    return invalid("rotary.width", "must be even and at least 0, got " + number(rotary.width));
  if (rotary.width > head_dim)
    return invalid("rotary.width",
                   "must be at most head_dim " + number(head_dim) + ", got " + number(rotary.width));
  if (rotary.pairs != RotaryPairs::half_split && rotary.pairs != RotaryPairs::interleaved)
    return invalid("rotary.pairs", "is half_split (0) or interleaved (1), got " +
                                       number(static_cast<std::int64_t>(rotary.pairs)));
  if (!(rotary.base > 0) || !std::isfinite(rotary.base))
    return invalid("rotary.base", "must be finite and above 0, got " + std::to_string(rotary.base));
  return {};
}

std::int64_t int_at(const TensorView& view, std::int64_t batch, std::int64_t column = 0) {
  return static_cast<const std::int32_t*>(view.data)[batch * view.strides[0] + column * view.strides[3]];
}

unsigned char* row_at(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t i) {
  return static_cast<unsigned char*>(view.data) +
         (b * view.strides[0] + h * view.strides[1] + i * view.strides[2]) * dtype_bytes(view.dtype);
}

double load(const unsigned char* at, DType dtype) {
  std::uint16_t bits = 0;
  float narrow = 0;
  double wide = 0;
  switch (dtype) {
    case DType::f16:
    case DType::bf16:
      std::memcpy(&bits, at, sizeof bits);
      return static_cast<double>(decode16(dtype == DType::f16 ? format_f16 : format_bf16, bits));
    case DType::f64:
      std::memcpy(&wide, at, sizeof wide);
      return wide;
    default:
      std::memcpy(&narrow, at, sizeof narrow);
      return static_cast<double>(narrow);
  }
}

void store(unsigned char* at, DType dtype, double value) {
  if (dtype == DType::f64) {
    std::memcpy(at, &value, sizeof value);
  } else if (dtype == DType::f32) {
    const auto narrow = static_cast<float>(value);
    std::memcpy(at, &narrow, sizeof narrow);
  } else {
    const std::uint16_t bits = encode16(dtype == DType::f16 ? format_f16 : format_bf16, value);
    std::memcpy(at, &bits, sizeof bits);
  }
}

// A row of elements as they are, NaN and all.
void copy_row(const TensorView& from, const unsigned char* source, const TensorView& to,
              unsigned char* target, std::int64_t first, std::int64_t end) {
  const std::int64_t bytes = dtype_bytes(from.dtype);
  if (from.strides[3] == 1 && to.strides[3] == 1) {
    if (target + first * bytes != source + first * bytes && end > first)
      std::memmove(target + first * bytes, source + first * bytes,
                   static_cast<std::size_t>((end - first) * bytes));
    return;
  }
  for (std::int64_t c = first; c < end; ++c)
    std::memmove(target + c * to.strides[3] * bytes, source + c * from.strides[3] * bytes,
                 static_cast<std::size_t>(bytes));
}

// Rows of all heads at one position: `source(head)` and `target(head)` point to them. Angles are the same for
// every head, so that each is computed once.
template <class Source, class Target>
void rotate_heads(const TensorView& from, const TensorView& to, std::int64_t position, const Rotary& rotary,
                  Source source, Target target) {
  const DType dtype = from.dtype;
  const std::int64_t bytes = dtype_bytes(dtype), half = rotary.width / 2;
  for (std::int64_t p = 0; p < half; ++p) {
    const double angle =
        static_cast<double>(position) *
        std::pow(rotary.base, -2.0 * static_cast<double>(p) / static_cast<double>(rotary.width));
    const double cosine = std::cos(angle), sine = std::sin(angle);
    const bool interleaved = rotary.pairs == RotaryPairs::interleaved;
    const std::int64_t first = interleaved ? 2 * p : p, second = interleaved ? 2 * p + 1 : p + half;
    for (std::int64_t h = 0; h < from.heads(); ++h) {
      const unsigned char* const row = source(h);
      unsigned char* const out = target(h);
      const double x = load(row + first * from.strides[3] * bytes, dtype);
      const double y = load(row + second * from.strides[3] * bytes, dtype);
      store(out + first * to.strides[3] * bytes, dtype, x * cosine - y * sine);
      store(out + second * to.strides[3] * bytes, dtype, x * sine + y * cosine);
    }
  }
  for (std::int64_t h = 0; h < from.heads(); ++h)
    copy_row(from, source(h), to, target(h), rotary.width, from.dim());
}

// Where the rows of a cache lie.
class Cache {
 public:
  Cache(const TensorView& view, const TensorView& page_table) : view_(view), table_(page_table) {}
  unsigned char* row(std::int64_t b, std::int64_t h, std::int64_t position) const {
    if (!table_.data) return row_at(view_, b, h, position);
    const std::int64_t page_size = view_.length();
    return row_at(view_, int_at(table_, b, position / page_size), h, position % page_size);
  }
  const TensorView& view() const { return view_; }

 private:
  const TensorView& view_;
  const TensorView& table_;
};

std::int64_t appended(const AppendTensors& t, std::int64_t b) {
  return t.new_lengths.data ? int_at(t.new_lengths, b) : t.new_k.length();
}

// Lengths against capacity and pages against the pool, for every batch element.
Status check_room(const AppendTensors& t) {
  for (std::int64_t b = 0; b < t.new_k.batch(); ++b) {
    const std::string element = "batch element " + number(b);
    const std::int64_t have = int_at(t.kv_lengths, b), more = appended(t, b);
    if (have < 0) return invalid("kv_lengths", element + " must be at least 0, got " + number(have));
    if (more < 0 || more > t.new_k.length())
      return invalid("new_lengths", element + " must be at least 0 and at most the " +
                                        number(t.new_k.length()) + " new rows, got " + number(more));
    const std::int64_t page_size = t.k.length();
    const std::int64_t capacity = t.page_table.data ? t.page_table.dim() * page_size : t.k.length();
    if (have + more > capacity)
      return invalid("kv_lengths", element + " has " + number(have) + " keys and gets " + number(more) +
                                       ", more than its capacity: " + number(have + more) + " > " +
                                       number(capacity));
    if (!t.page_table.data || more == 0) continue;
    for (std::int64_t c = have / page_size; c <= (have + more - 1) / page_size; ++c) {
      const std::int64_t page = int_at(t.page_table, b, c);
      if (page < 0 || page >= t.k.batch())
        return invalid("page_table", "row " + number(b) + ", column " + number(c) +
                                         " must be at least 0 and below " + number(t.k.batch()) +
                                         ", the number of pages, got " + number(page));
    }
  }
  return {};
}

}  // namespace

Status rotate(const TensorView& x, const TensorView& start, const Rotary& rotary, const TensorView& out) {
  for (Status status :
       {check_type("x", x.dtype), check_host_view("x", x, x.dtype, x.shape),
        check_host_view("out", out, x.dtype, x.shape), check_distinct("out", out),
        check_host_view("start", start, DType::i32, {x.batch(), 1, 1, 1}), check_rotary(rotary, x.dim())})
    if (!status.ok()) return status;
  if (x.data == out.data && x.strides != out.strides)
    return invalid("out", "has other strides than x, whose memory it shares");
  if (x.elements() == 0) return {};
  for (std::int64_t b = 0; b < x.batch(); ++b)
    if (int_at(start, b) < 0)
      return invalid("start",
                     "batch element " + number(b) + " must be at least 0, got " + number(int_at(start, b)));
  for (std::int64_t b = 0; b < x.batch(); ++b)
    for (std::int64_t i = 0; i < x.length(); ++i)
      rotate_heads(
          x, out, int_at(start, b) + i, rotary, [&](std::int64_t h) { return row_at(x, b, h, i); },
          [&](std::int64_t h) { return row_at(out, b, h, i); });
  return {};
}

Status append_kv(const AppendTensors& t, const Rotary& rotary) {
  const std::int64_t batch = t.new_k.batch(), heads = t.new_k.heads();
  const bool paged = t.page_table.data != nullptr;
  const DType dtype = t.new_k.dtype;
  const std::array<std::int64_t, 4> of_new_v{batch, heads, t.new_k.length(), t.new_v.dim()};
  const std::array<std::int64_t, 4> of_k{paged ? t.k.batch() : batch, heads, t.k.length(), t.new_k.dim()};
  const std::array<std::int64_t, 4> of_v{of_k[0], heads, of_k[2], t.new_v.dim()};
  for (Status status :
       {check_type("new_k", dtype), check_host_view("new_k", t.new_k, dtype, t.new_k.shape),
        check_host_view("new_v", t.new_v, dtype, of_new_v), check_host_view("k", t.k, dtype, of_k),
        check_host_view("v", t.v, dtype, of_v), check_distinct("k", t.k), check_distinct("v", t.v),
        check_host_view("kv_lengths", t.kv_lengths, DType::i32, {batch, 1, 1, 1}),
        t.new_lengths.data ? check_host_view("new_lengths", t.new_lengths, DType::i32, {batch, 1, 1, 1})
                           : Status(),
        paged ? check_host_view("page_table", t.page_table, DType::i32, {batch, 1, 1, t.page_table.dim()})
              : Status(),
        check_rotary(rotary, t.new_k.dim())})
    if (!status.ok()) return status;
  if (paged && t.k.length() == 0) return invalid("k", "pages must have room for at least 1 key, got 0");
  if (batch == 0 || heads == 0) return {};
  if (Status status = check_room(t); !status.ok()) return status;

  const Cache k(t.k, t.page_table), v(t.v, t.page_table);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t i = 0; i < appended(t, b); ++i) {
      const std::int64_t position = int_at(t.kv_lengths, b) + i;
      rotate_heads(
          t.new_k, t.k, position, rotary, [&](std::int64_t h) { return row_at(t.new_k, b, h, i); },
          [&](std::int64_t h) { return k.row(b, h, position); });
      for (std::int64_t h = 0; h < heads; ++h)
        copy_row(t.new_v, row_at(t.new_v, b, h, i), t.v, v.row(b, h, position), 0, t.new_v.dim());
    }
  return {};
}

}  // namespace runmax
