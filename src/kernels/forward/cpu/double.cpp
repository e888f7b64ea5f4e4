// cpu_double: attention in double precision, by key blocks with a running maximum. Each item is a tile of
// rows of one KV head with all its keys.
#include <cmath>
#include <limits>

#include "kernels/forward/cpu/double_tiles.hpp"
#include "kernels/forward/cpu/geometry.hpp"
#include "kernels/forward/cpu/kv_rows.hpp"
#include "kernels/forward/cpu/launch.hpp"
#include "kernels/forward/cpu/work.hpp"
#include "runtime/workers.hpp"

namespace runmax::cpu {
namespace {

constexpr std::int64_t padded_width(std::int64_t value_dim) { return round_up(value_dim, 8); }

SequenceWork double_work(const Problem& p, const Sequence& sequence, std::int64_t batch) {
  SequenceWork w;
  w.sequence = sequence;
  w.batch = batch;
  w.row_tiles = ceil_div(Geometry(p, sequence).rows(), double_tile.block_q);
  w.compute_items = w.row_tiles;
  return w;
}

std::int64_t all_tiles(const Problem& p) {
  if (Geometry(p).kv_heads() == 0) return 0;
  std::int64_t tiles = 0;
  for (std::int64_t b = 0; b < (p.varlen.empty() ? 1 : p.batch); ++b) {
    const SequenceLengths lengths = planned_lengths(p, b);
    tiles += double_work(p, {lengths.query_len, lengths.kv_len, 0, 0}, b).row_tiles * p.kv_heads;
  }
  return p.varlen.empty() ? tiles * p.batch : tiles;
}

// One thread's memory.
struct Scratch {
  double *q, *k, *v, *scores, *max, *sum, *out, *stage;
  KeyRange* visible;
};

struct Memory {
  SequenceWork* list = nullptr;
  float* scratch = nullptr;
  std::int64_t scratch_floats = 0;
  std::int64_t bytes = 0;

  Memory(const Problem& p, std::int32_t threads, void* data) {
    Regions regions(data);
    list = regions.take_objects<SequenceWork>(uniform(p) ? 0 : p.batch);
    Regions one;
    scratch_of(p, one);
    scratch_floats = one.bytes() / static_cast<std::int64_t>(sizeof(float));
    scratch = regions.take(std::max(threads, 1) * scratch_floats);
    bytes = regions.bytes();
  }

  static Scratch scratch_of(const Problem& p, Regions& regions) {
    Scratch s{};
    const auto take = [&](std::int64_t doubles) { return regions.take_objects<double>(doubles); };
    s.q = take(double_tile.block_q * p.head_dim);
    s.k = take(double_tile.block_kv * p.head_dim);
    s.v = take(double_tile.block_kv * padded_width(p.value_dim));
    s.scores = take(double_tile.rows * double_tile.block_kv);
    s.max = take(double_tile.block_q);
    s.sum = take(double_tile.block_q);
    s.out = take(double_tile.block_q * padded_width(p.value_dim));
    s.visible = regions.take_objects<KeyRange>(double_tile.block_q);
    return s;
  }
};

class DoubleRun {
 public:
  DoubleRun(const Plan& plan, const Tensors& tensors, void* workspace)
      : problem_(plan.problem),
        tensors_(tensors),
        memory_(problem_, plan.threads, workspace),
        uniform_(double_work(problem_, {problem_.query_len, problem_.kv_len, 0, 0}, 0)),
        functions_(double_functions()),
        width_(padded_width(problem_.value_dim)),
        workers_(plan.threads) {
    const double scale = effective_scale(problem_);
    if (scale == 0) return;
    // As in FP32: Q takes the power of two, the rest goes to score - max.
    int exponent = 0;
    mantissa_ = 2 * std::frexp(std::abs(scale), &exponent);
    query_factor_ = std::copysign(std::ldexp(1.0, exponent - 1), scale);
    exponent_scale_ = mantissa_ * 1.4426950408889634074;
  }

  std::int64_t workspace_bytes() const { return memory_.bytes; }

  void run() {
    const WorkList list(
        problem_, uniform_, uniform(problem_) ? 0 : problem_.batch, tensors_.kv_lengths, memory_.list,
        [&](const Sequence& sequence, std::int64_t b) { return double_work(problem_, sequence, b); });
    workers_.for_each(list.items(),
                      [&](std::int64_t worker, std::int64_t item) { compute(worker, list.job(item)); });
  }

 private:
  // One row of a tensor of double, channel by channel.
  static const double* row_of(const ElementRows& rows, std::int64_t row) {
    return static_cast<const double*>(rows.data) + row * rows.row_stride;
  }

  void compute(std::int64_t worker, const Job& job) const {
    const Geometry geometry(problem_, job.work->sequence);
    Regions regions(memory_.scratch + worker * memory_.scratch_floats);
    const Scratch s = Memory::scratch_of(problem_, regions);
    // Under a causal mask the last rows have the most keys: longest first.
    const std::int64_t first = (job.work->row_tiles - 1 - job.item) * double_tile.block_q;
    const std::int64_t rows = std::min(double_tile.block_q, geometry.rows() - first);
    std::fill(s.out, s.out + rows * width_, 0.0);
    std::fill(s.max, s.max + rows, std::numeric_limits<double>::lowest());
    std::fill(s.sum, s.sum + rows, 0.0);
    KeyRange all{job.work->sequence.kv_len, 0};
    for (std::int64_t r = 0; r < rows; ++r) {
      const KeyRange keys = s.visible[r] = geometry.keys(first + r);
      if (keys.begin >= keys.end) continue;
      all.begin = std::min(all.begin, keys.begin);
      all.end = std::max(all.end, keys.end);
    }
    pack_queries(geometry, job, first, rows, s.q);
    // Blocks lie at fixed keys, so that a row has the same bits in any tile.
    for (std::int64_t key = all.begin / double_tile.block_kv * double_tile.block_kv; key < all.end;
         key += double_tile.block_kv)
      add_block(job, rows, key, std::min(double_tile.block_kv, job.work->sequence.kv_len - key), s);
    store(geometry, job, first, rows, s);
  }

  void pack_queries(const Geometry& geometry, const Job& job, std::int64_t first, std::int64_t rows,
                    double* q) const {
    const std::int64_t dim = problem_.head_dim;
    std::fill(q, q + round_up(rows, double_tile.rows) * dim, 0.0);
    for_each_run(
        geometry, job.kv_head, first, rows, [&](const RowAddress& at, std::int64_t done, std::int64_t count) {
          const ElementRows from =
              element_rows(tensors_.q, geometry.tensor_batch(at.batch), at.head, geometry.tensor_row(at));
          for (std::int64_t r = done; r < done + count; ++r) {
            const double* row = row_of(from, r - done);
            double* to = q + r / double_tile.rows * double_tile.rows * dim + r % double_tile.rows;
            for (std::int64_t c = 0; c < dim; ++c)
              to[c * double_tile.rows] = query_factor_ * row[c * from.channel_stride];
          }
        });
  }

  KvRows rows_of_head(const TensorView& view, const Job& job) const {
    const std::int64_t head = job.kv_head % problem_.kv_heads, batch = job.kv_head / problem_.kv_heads;
    if (problem_.page_size > 0) return {view, head, tensors_.page_table, batch, problem_.page_size};
    return {view, problem_.varlen.empty() ? batch : 0, head, job.work->sequence.kv_start};
  }

  void add_block(const Job& job, std::int64_t rows, std::int64_t key, std::int64_t keys,
                 const Scratch& s) const {
    const std::int64_t dim = problem_.head_dim;
    const std::int64_t panel = double_tile.panel;
    std::fill(s.k + keys / panel * panel * dim, s.k + round_up(keys, panel) * dim, 0.0);
    rows_of_head(tensors_.k, job)
        .for_each_run(key, keys, [&](std::int64_t done, std::int64_t count, const ElementRows& from) {
          for (std::int64_t j = done; j < done + count; ++j) {
            const double* row = row_of(from, j - done);
            double* to = s.k + j / panel * panel * dim + j % panel;
            for (std::int64_t c = 0; c < dim; ++c) to[c * panel] = row[c * from.channel_stride];
          }
        });
    rows_of_head(tensors_.v, job)
        .for_each_run(key, keys, [&](std::int64_t done, std::int64_t count, const ElementRows& from) {
          for (std::int64_t j = done; j < done + count; ++j) {
            const double* row = row_of(from, j - done);
            double* to = s.v + j * width_;
            for (std::int64_t c = 0; c < problem_.value_dim; ++c) to[c] = row[c * from.channel_stride];
            std::fill(to + problem_.value_dim, to + width_, 0.0);
          }
        });
    DoubleKeys visible[double_tile.rows];
    DoubleBlock block;
    block.keys = keys;
    block.head_dim = dim;
    block.value_width = width_;
    block.k = s.k;
    block.v = s.v;
    block.visible = visible;
    block.exponent_scale = exponent_scale_;
    block.scores = s.scores;
    for (std::int64_t r = 0; r < rows; r += double_tile.rows) {
      block.rows = std::min(double_tile.rows, rows - r);
      bool any = false;
      for (std::int64_t i = 0; i < block.rows; ++i) {
        const std::int64_t low = std::clamp(s.visible[r + i].begin, key, key + keys);
        const std::int64_t high = std::clamp(s.visible[r + i].end, low, key + keys);
        visible[i] = {static_cast<std::int32_t>(low - key), static_cast<std::int32_t>(high - key)};
        any = any || low < high;
      }
      if (!any) continue;
      block.q = s.q + r * dim;
      block.max = s.max + r;
      block.sum = s.sum + r;
      block.out = s.out + r * width_;
      functions_.add_block(block);
    }
  }

  void store(const Geometry& geometry, const Job& job, std::int64_t first, std::int64_t rows,
             const Scratch& s) const {
    for_each_run(geometry, job.kv_head, first, rows,
                 [&](const RowAddress& at, std::int64_t done, std::int64_t count) {
                   const std::int64_t batch = geometry.tensor_batch(at.batch);
                   for (std::int64_t r = done; r < done + count; ++r) {
                     const std::int64_t row = geometry.tensor_row(at) + r - done;
                     store_row(batch, at.head, row, s.out + r * width_, s.max[r], s.sum[r]);
                   }
                 });
  }

  void store_row(std::int64_t batch, std::int64_t head, std::int64_t row, const double* out, double max,
                 double sum) const {
    const auto at = [&](const TensorView& view) {
      return static_cast<double*>(view.data) + batch * view.strides[0] + head * view.strides[1] +
             row * view.strides[2];
    };
    double* o = at(tensors_.o);
    for (std::int64_t c = 0; c < problem_.value_dim; ++c)
      o[c * tensors_.o.strides[3]] = sum == 0.0 ? 0.0 : out[c] / sum;
    if (!tensors_.lse.data) return;
    *at(tensors_.lse) =
        sum == 0.0 ? -std::numeric_limits<double>::infinity() : max * mantissa_ + std::log(sum);
  }

  const Problem& problem_;
  const Tensors& tensors_;
  Memory memory_;
  SequenceWork uniform_;
  const DoubleFunctions& functions_;
  std::int64_t width_;
  Workers workers_;
  double query_factor_ = 0, exponent_scale_ = 1, mantissa_ = 0;
};

}  // namespace

std::optional<std::string> double_refuses(const Problem& p, const DeviceFacts& facts,
                                          const PlanOptions& options) {
  if (options.num_splits > 1)
    return "num_splits: rows are computed whole, got " + std::to_string(options.num_splits);
  // Twice the size of what an f32 problem needs at most.
  return too_large(p, 2, 2.0 * (options.threads > 0 ? options.threads : facts.threads));
}

void fill_double_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  plan.block_q = double_tile.block_q;
  plan.block_kv = double_tile.block_kv;
  plan.num_splits = 1;
  plan.work_items = all_tiles(plan.problem);
  plan.threads = threads_for(plan.work_items, facts, options);
  plan.workspace_bytes =
      plan.work_items == 0 ? 0 : static_cast<std::size_t>(Memory(plan.problem, plan.threads, nullptr).bytes);
}

Status run_double(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream) {
  return run_in_workspace<DoubleRun>(plan, tensors, workspace);
}

}  // namespace runmax::cpu
