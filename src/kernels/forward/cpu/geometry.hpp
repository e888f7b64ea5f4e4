// How a problem is cut for the CPU: rows that share a KV head, tiles of rows, splits over keys.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "kernels/forward/cpu/config.hpp"
#include "kernels/forward/cpu/elements.hpp"
#include "kernels/forward/cpu/tiles.hpp"
#include "runmax/runmax.hpp"

namespace runmax::cpu {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

// Score = q k * softmax_scale in natural units; here q is multiplied by `query_factor`, a signed power of
// two, and a weight is exp2(exponent_scale * (score - max)). Scores thus are rounded no more than q k itself,
// and the difference to the maximum is exact where it matters.
struct ScaleParts {
  double query_factor = 0;
  float exponent_scale = 1;
  double natural_scale = 0;  // score in these units times this is the natural score
};

inline ScaleParts split_scale(double softmax_scale) {
  ScaleParts parts;
  if (softmax_scale == 0) return parts;
  int exponent = 0;
  const double mantissa = 2 * std::frexp(std::abs(softmax_scale), &exponent);
  parts.query_factor = std::copysign(std::ldexp(1.0, exponent - 1), softmax_scale);
  parts.natural_scale = mantissa;
  parts.exponent_scale = static_cast<float>(mantissa * 1.4426950408889634074);
  return parts;
}

// One row of one head; `query` counts within its sequence.
struct RowAddress {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t query = 0;
};

// What may differ between the elements of a batch: the lengths, and where their rows begin in packed tensors.
struct Sequence {
  std::int64_t query_len = 0;
  std::int64_t kv_len = 0;
  std::int64_t query_start = 0;
  std::int64_t kv_start = 0;
};

// All query heads that share a KV head form one list of rows, head after head: their K and V are read once.
// KV heads are numbered through the batch, element after element.
class Geometry {
 public:
  explicit Geometry(const Problem& p) : Geometry(p, {p.query_len, p.kv_len, 0, 0}) {}
  // Of the KV heads of one sequence.
  Geometry(const Problem& p, const Sequence& sequence)
      : problem_(p),
        sequence_(sequence),
        group_(p.kv_heads == 0 ? 1 : p.query_heads / p.kv_heads),
        rows_(group_ * sequence.query_len),
        kv_heads_(p.query_heads == 0 ? 0 : p.batch * p.kv_heads),
        block_q_(kv_heads_ * ceil_div(rows_, forward_tile.block_q) >= enough_items
                     ? forward_tile.block_q
                     : forward_tile.small_block_q),
        row_tiles_(ceil_div(rows_, block_q_)),
        all_visible_(p.causal == Causal::none && p.window == Window{}) {}

  const Problem& problem() const { return problem_; }
  const Sequence& sequence() const { return sequence_; }
  std::int64_t kv_heads() const { return kv_heads_; }    // of the whole batch
  std::int64_t rows() const { return rows_; }            // of one KV head
  std::int64_t block_q() const { return block_q_; }      // of a row tile
  std::int64_t row_tiles() const { return row_tiles_; }  // of one KV head

  RowAddress address(std::int64_t kv_head, std::int64_t row) const {
    return {kv_head / problem_.kv_heads, kv_head % problem_.kv_heads * group_ + row / sequence_.query_len,
            row % sequence_.query_len};
  }

  KeyRange keys(std::int64_t row) const {
    if (all_visible_) return {0, sequence_.kv_len};
    return visible_keys(problem_.causal, problem_.window, sequence_.query_len, sequence_.kv_len,
                        row % sequence_.query_len);
  }

  // Where a row, or a batch element, lies in Q, O and LSE: a packed batch is one element.
  std::int64_t tensor_batch(std::int64_t batch) const { return problem_.varlen.empty() ? batch : 0; }
  std::int64_t tensor_row(const RowAddress& at) const { return sequence_.query_start + at.query; }

 private:
  const Problem& problem_;
  Sequence sequence_;
  std::int64_t group_, rows_, kv_heads_, block_q_, row_tiles_;
  bool all_visible_;
};

// Why sizes and offsets of this problem do not fit in 64 bits, or nothing. In double, so that nothing
// overflows on the way: to be asked before a Geometry is made.
inline std::optional<std::string> too_large(const Problem& p, double splits, double threads) {
  const auto product = [](auto... factors) { return (static_cast<double>(factors) * ... * 1.0); };
  const double rows = product(p.batch, p.query_heads, p.query_len);
  if (rows >= 0x1p56) return "shape: batch * query_heads * query_len must stay below 2^56";
  const double keys = product(p.batch, p.kv_heads, p.kv_len + forward_tile.panel);
  if (keys >= 0x1p56) return "shape: batch * kv_heads * kv_len must stay below 2^56";
  const double width = product(p.head_dim) + product(p.value_dim) + 4 * product(forward_tile.panel);
  const double scratch =
      threads * product(forward_tile.block_q + forward_tile.block_kv) * (width + score_stride);
  if (4 * (width * (keys + rows * splits) + scratch) >= 0x1p62)
    return "shape: the workspace would exceed 2^62 bytes";
  return std::nullopt;
}

// Threads worth having: one for each work item, within the caller's limit.
inline std::int32_t threads_for(std::int64_t work_items, const DeviceFacts& facts,
                                const PlanOptions& options) {
  const std::int32_t limit = std::max(options.threads > 0 ? options.threads : facts.threads, 1);
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(work_items, 1, limit));
}

// Runs a plan in the caller's workspace. Run(plan, tensors, memory) lays out its memory and has
// workspace_bytes() and run().
template <class Run>
Status run_in_workspace(const Plan& plan, const Tensors& tensors, Workspace workspace) {
  if (plan.work_items == 0) return {};
  Run run(plan, tensors, workspace.data);
  if (static_cast<std::int64_t>(workspace.bytes) < run.workspace_bytes())
    return {StatusCode::invalid_argument,
            "plan: was changed after planning; its workspace no longer suffices"};
  run.run();
  return {};
}

inline std::int64_t padded(std::int64_t value) { return round_up(value, forward_tile.panel); }

// The first element of a head.
inline float* head_data(const TensorView& view, std::int64_t batch, std::int64_t head) {
  return static_cast<float*>(view.data) + batch * view.strides[0] + head * view.strides[1];
}

inline StridedRows head_rows(const TensorView& view, std::int64_t batch, std::int64_t head,
                             std::int64_t first) {
  return {head_data(view, batch, head) + first * view.strides[2], view.strides[2], view.strides[3]};
}

// True if rows of V can be read where they lie at full speed: one whole group of neighbouring channels, row
// after row, on cache-line boundaries (a load across two lines costs 3 % of the weighted sum).
inline bool values_in_place(const TensorView& v) {
  const auto whole_lines = [](std::int64_t elements) { return elements % forward_tile.panel == 0; };
  return v.dtype == DType::f32 && v.strides[3] == 1 && v.strides[2] == v.dim() &&
         v.dim() <= forward_tile.value_group && whole_lines(v.dim()) && whole_lines(v.strides[0]) &&
         whole_lines(v.strides[1]) && reinterpret_cast<std::uintptr_t>(v.data) % region_bytes == 0;
}

// Rows of neighbouring channels; a row stride of 0 has to be packed.
inline ValueRows values_where_they_lie(const StridedRows& v, bool from_memory) {
  return {v.data, 0, v.row_stride, forward_tile.value_group, from_memory};
}

inline ValueRows rows_of(const PackedValues& packed, std::int64_t first_key) {
  return {packed.data, first_key, 0, forward_tile.value_group * packed.keys, false};
}

// Rows [first, first + rows) of a KV head, cut where a query head ends: run(address of the first, how many
// rows came before, how many there are).
template <class Run>
void for_each_run(const Geometry& geometry, std::int64_t kv_head, std::int64_t first, std::int64_t rows,
                  Run run) {
  for (std::int64_t done = 0; done < rows;) {
    const RowAddress at = geometry.address(kv_head, first + done);
    const std::int64_t count = std::min(rows - done, geometry.sequence().query_len - at.query);
    run(at, done, count);
    done += count;
  }
}

// Copies `rows` query rows, which may lie in several heads, beginning at `first`, times `factor`. `stage`
// holds a register tile of rows; for f32 it is not used.
inline void scale_query_tile(const Geometry& geometry, const TensorView& q, std::int64_t kv_head,
                             std::int64_t first, std::int64_t rows, double factor, float* stage, float* to) {
  const std::int64_t head_dim = geometry.problem().head_dim;
  for_each_run(
      geometry, kv_head, first, rows, [&](const RowAddress& at, std::int64_t done, std::int64_t count) {
        const std::int64_t batch = geometry.tensor_batch(at.batch), row = geometry.tensor_row(at);
        if (q.dtype == DType::f32) {
          scale_rows(head_rows(q, batch, at.head, row), count, head_dim, factor, to + done * head_dim);
          return;
        }
        for (std::int64_t r = 0; r < count; r += forward_tile.rows) {
          const std::int64_t some = std::min(count - r, forward_tile.rows);
          element_functions().widen(element_rows(q, batch, at.head, row + r), some, head_dim, stage);
          scale_rows({stage, head_dim, 1}, some, head_dim, factor, to + (done + r) * head_dim);
        }
      });
}

// LSE of a state whose max is in the units of `scale`.
inline float natural_lse(const SoftmaxState<float>& state, const ScaleParts& scale) {
  if (state.sum == 0.0f) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(static_cast<double>(state.max) * scale.natural_scale +
                            static_cast<double>(std::log(state.sum)));
}

// What joins a row after its last key.
struct RowEnd {
  const TensorView* sink = nullptr;  // (1, query_heads, 1, 1): a score without a value
  double kept_factor = 1;            // of the weights that dropout kept
  bool any() const { return sink != nullptr || kept_factor != 1; }
};

struct EndedRow {
  double factor = 1;  // of out / sum
  float lse = 0;
};

// In double: once a row, and a sink far above all scores leaves an output that is small, not 0.
inline EndedRow end_row(const RowEnd& end, std::int64_t head, const SoftmaxState<float>& state,
                        const ScaleParts& scale) {
  if (!end.sink) return {end.kept_factor, natural_lse(state, scale)};
  const double sink = static_cast<const float*>(end.sink->data)[head * end.sink->strides[1]];
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  const double max =
      state.sum == 0.0f ? minus_infinity : static_cast<double>(state.max) * scale.natural_scale;
  const double top = softmax_max(max, sink);
  const double keys = state.sum == 0.0f ? 0.0 : static_cast<double>(state.sum) * std::exp(max - top);
  const double total = keys + std::exp(sink - softmax_shift(top));
  if (total == 0) return {0.0, -std::numeric_limits<float>::infinity()};
  return {end.kept_factor * (keys / total), static_cast<float>(top + std::log(total))};
}

// Writes rows of the result, and their LSE if it is wanted: out / sum for the states in `max` and `sum`.
// `out` (rows, padded value_dim) is the caller's scratch.
inline void store_rows(const Geometry& geometry, const Tensors& t, const TileFunctions& functions,
                       std::int64_t kv_head, std::int64_t first, std::int64_t rows, float* out,
                       const float* max, const float* sum, const ScaleParts& scale, const RowEnd& end = {}) {
  const std::int64_t value_dim = geometry.problem().value_dim;
  const auto ended = [&](const RowAddress& at, std::int64_t r) {
    return end_row(end, at.head, {max[r], sum[r]}, scale);
  };
  const auto store = [&](const RowAddress& at, std::int64_t done, std::int64_t count) {
    const std::int64_t batch = geometry.tensor_batch(at.batch), first_row = geometry.tensor_row(at);
    for (std::int64_t r = done; r < done + count; ++r) {
      float* row = out + r * padded(value_dim);
      void* to = element_at(
          t.o.data, t.o.dtype,
          batch * t.o.strides[0] + at.head * t.o.strides[1] + (first_row + r - done) * t.o.strides[2]);
      if (end.any()) {
        functions.normalize(row, value_dim, sum[r], row);
        const double factor = ended(at, r).factor;
        for (std::int64_t c = 0; c < value_dim; ++c) row[c] = static_cast<float>(factor * row[c]);
        element_functions().narrow(row, value_dim, t.o.dtype, to, t.o.strides[3]);
        continue;
      }
      if (t.o.dtype == DType::f32 && t.o.strides[3] == 1) {
        functions.normalize(row, value_dim, sum[r], static_cast<float*>(to));
        continue;
      }
      functions.normalize(row, value_dim, sum[r], row);
      element_functions().narrow(row, value_dim, t.o.dtype, to, t.o.strides[3]);
    }
    if (!t.lse.data) return;
    float* lse = head_data(t.lse, batch, at.head) + first_row * t.lse.strides[2];
    for (std::int64_t r = done; r < done + count; ++r, lse += t.lse.strides[2]) *lse = ended(at, r).lse;
  };
  for_each_run(geometry, kv_head, first, rows, store);
}

// Takes regions of floats out of the caller's workspace, each at a multiple of region_bytes; with no memory
// behind it, it counts.
class Regions {
 public:
  explicit Regions(void* data = nullptr) : data_(static_cast<char*>(data)) {}
  float* take(std::int64_t floats) {
    char* region = data_ ? data_ + bytes_ : nullptr;
    bytes_ += round_up(floats * static_cast<std::int64_t>(sizeof(float)), region_bytes);
    return reinterpret_cast<float*>(region);
  }
  template <class Object>
  Object* take_objects(std::int64_t count) {
    static_assert(sizeof(Object) % sizeof(float) == 0 && alignof(Object) <= region_bytes);
    return reinterpret_cast<Object*>(take(count * static_cast<std::int64_t>(sizeof(Object) / sizeof(float))));
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  char* data_;
  std::int64_t bytes_ = 0;
};

}  // namespace runmax::cpu
