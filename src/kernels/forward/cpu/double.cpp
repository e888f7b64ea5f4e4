// cpu_double: attention in double precision, by key blocks with a running maximum. Each item is a tile of
// rows of one KV head with a split of its keys; splits are merged in ascending order.
#include <cmath>
#include <limits>

#include "kernels/forward/cpu/double_options.hpp"
#include "kernels/forward/cpu/double_rows.hpp"
#include "kernels/forward/cpu/double_tiles.hpp"
#include "kernels/forward/cpu/geometry.hpp"
#include "kernels/forward/cpu/kv_rows.hpp"
#include "kernels/forward/cpu/launch.hpp"
#include "kernels/forward/cpu/work.hpp"
#include "runtime/workers.hpp"

namespace runmax::cpu {
namespace {

SequenceWork double_work(const Problem& p, std::int64_t num_splits, const Sequence& sequence,
                         std::int64_t batch) {
  SequenceWork w;
  w.sequence = sequence;
  w.batch = batch;
  w.row_tiles = ceil_div(Geometry(p, sequence).rows(), double_tile.block_q);
  split_keys(p, num_splits, sequence, w);
  w.compute_items = w.row_tiles * w.splits;
  return w;
}

// Items of the call, as far as the plan knows.
std::int64_t all_items(const Problem& p, std::int64_t num_splits) {
  if (Geometry(p).kv_heads() == 0) return 0;
  std::int64_t items = 0;
  for (std::int64_t b = 0; b < (p.varlen.empty() ? 1 : p.batch); ++b) {
    const SequenceLengths lengths = planned_lengths(p, b);
    items +=
        double_work(p, num_splits, {lengths.query_len, lengths.kv_len, 0, 0}, b).compute_items * p.kv_heads;
  }
  return p.varlen.empty() ? items * p.batch : items;
}

// One thread's memory.
struct Scratch {
  double *q, *k, *v, *scores, *max, *sum, *out;
  KeyRange* visible;
  std::uint8_t* sees;  // (6, block_kv), where options hide keys
};

// What a tile's rows have of one split.
struct Partial {
  double *out, *max, *sum;
};

struct Memory {
  SequenceWork* list = nullptr;
  double* partial_out = nullptr;  // (items, rows of a tile, width)
  double* partial_max = nullptr;  // (items, rows of a tile)
  double* partial_sum = nullptr;
  std::int64_t tile_rows = 0;  // at most
  float* scratch = nullptr;
  std::int64_t scratch_floats = 0;
  std::int64_t bytes = 0;

  Memory(const Problem& p, std::int64_t num_splits, std::int32_t threads, void* data)
      : tile_rows(std::min(double_tile.block_q, Geometry(p).rows())) {
    Regions regions(data);
    list = regions.take_objects<SequenceWork>(uniform(p) ? 0 : p.batch);
    const std::int64_t states = num_splits > 1 ? all_items(p, num_splits) * tile_rows : 0;
    partial_out = regions.take_objects<double>(states * padded_width(p.value_dim));
    partial_max = regions.take_objects<double>(states);
    partial_sum = regions.take_objects<double>(states);
    Regions one;
    scratch_of(p, one);
    scratch_floats = one.bytes() / static_cast<std::int64_t>(sizeof(float));
    scratch = regions.take(std::max(threads, 1) * scratch_floats);
    bytes = regions.bytes();
  }

  Partial partial(std::int64_t item, std::int64_t width) const {
    const std::int64_t state = item * tile_rows;
    return {partial_out + state * width, partial_max + state, partial_sum + state};
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
    s.sees = reinterpret_cast<std::uint8_t*>(
        regions.take(double_tile.rows * double_tile.block_kv / std::int64_t{sizeof(float)}));
    return s;
  }
};

class DoubleRun {
 public:
  DoubleRun(const Plan& plan, const Tensors& tensors, void* workspace)
      : problem_(plan.problem),
        tensors_(tensors),
        num_splits_(plan.num_splits),
        memory_(problem_, num_splits_, plan.threads, workspace),
        uniform_(double_work(problem_, num_splits_, {problem_.query_len, problem_.kv_len, 0, 0}, 0)),
        options_(problem_, tensors),
        functions_(double_functions()),
        width_(padded_width(problem_.value_dim)),
        workers_(plan.threads) {
    const double scale = effective_scale(problem_);
    if (scale != 0) {
      // As in FP32: Q takes the power of two, the rest goes to score - max.
      int exponent = 0;
      natural_scale_ = 2 * std::frexp(std::abs(scale), &exponent);
      query_factor_ = std::copysign(std::ldexp(1.0, exponent - 1), scale);
      exponent_scale_ = natural_scale_ * log2_e;
    }
    if (!options_.transforms()) return;
    // Options leave scores in natural units.
    product_scale_ = natural_scale_;
    natural_scale_ = 1;
    exponent_scale_ = log2_e;
  }

  std::int64_t workspace_bytes() const { return memory_.bytes; }

  void run() {
    const WorkList list(problem_, uniform_, uniform(problem_) ? 0 : problem_.batch, tensors_.kv_lengths,
                        memory_.list, [&](const Sequence& sequence, std::int64_t b) {
                          return double_work(problem_, num_splits_, sequence, b);
                        });
    workers_.for_each(list.items(),
                      [&](std::int64_t worker, std::int64_t item) { compute(worker, list.job(item), item); });
    if (num_splits_ == 1) return;
    workers_.for_each(list.items(), [&](std::int64_t, std::int64_t item) {
      const Job job = list.job(item);
      if (job.item % job.work->splits == 0) merge(job, item);
    });
  }

 private:
  static constexpr double log2_e = 1.4426950408889634074;

  // The tile of an item: under a causal mask the last rows have the most keys, and come first.
  std::int64_t first_row(const Job& job) const {
    return (job.work->row_tiles - 1 - job.item / job.work->splits) * double_tile.block_q;
  }

  void compute(std::int64_t worker, const Job& job, std::int64_t item) const {
    const Geometry geometry(problem_, job.work->sequence);
    Regions regions(memory_.scratch + worker * memory_.scratch_floats);
    Scratch s = Memory::scratch_of(problem_, regions);
    if (num_splits_ > 1) {
      const Partial partial = memory_.partial(item, width_);
      s.out = partial.out;
      s.max = partial.max;
      s.sum = partial.sum;
    }
    const std::int64_t first = first_row(job);
    const std::int64_t rows = std::min(double_tile.block_q, geometry.rows() - first);
    std::fill(s.out, s.out + rows * width_, 0.0);
    std::fill(s.max, s.max + rows, std::numeric_limits<double>::lowest());
    std::fill(s.sum, s.sum + rows, 0.0);
    const std::int64_t split = job.item % job.work->splits * job.work->split_keys;
    KeyRange all{job.work->sequence.kv_len, 0};
    for (std::int64_t r = 0; r < rows; ++r) {
      KeyRange keys = geometry.keys(first + r);
      keys.begin = std::max(keys.begin, split);
      keys.end = std::max(std::min(keys.end, split + job.work->split_keys), keys.begin);
      s.visible[r] = keys;
      if (keys.begin >= keys.end) continue;
      all.begin = std::min(all.begin, keys.begin);
      all.end = std::max(all.end, keys.end);
    }
    pack_queries(geometry, job, first, rows, s.q);
    // Blocks lie at fixed keys, so that a row has the same bits in any tile.
    for (std::int64_t key = all.begin / double_tile.block_kv * double_tile.block_kv; key < all.end;
         key += double_tile.block_kv)
      add_block(geometry, job, first, rows, key,
                std::min(double_tile.block_kv, job.work->sequence.kv_len - key), s);
    if (num_splits_ == 1) store(geometry, job, first, rows, {s.out, s.max, s.sum});
  }

  void pack_queries(const Geometry& geometry, const Job& job, std::int64_t first, std::int64_t rows,
                    double* q) const {
    const std::int64_t dim = problem_.head_dim;
    std::fill(q, q + round_up(rows, double_tile.rows) * dim, 0.0);
    for_each_run(
        geometry, job.kv_head, first, rows, [&](const RowAddress& at, std::int64_t done, std::int64_t count) {
          const ElementRows from =
              element_rows(tensors_.q, geometry.tensor_batch(at.batch), at.head, geometry.tensor_row(at));
          for (std::int64_t r = 0; r < count; ++r) pack_left(from, r, dim, query_factor_, done + r, q);
        });
  }

  KvRows rows_of_head(const TensorView& view, const Job& job) const {
    return kv_rows_of(problem_, tensors_, view, job.kv_head / problem_.kv_heads,
                      job.kv_head % problem_.kv_heads, job.work->sequence);
  }

  // Adds keys [key, key + keys) to the states of the rows from `first` on.
  void add_block(const Geometry& geometry, const Job& job, std::int64_t first, std::int64_t rows,
                 std::int64_t key, std::int64_t keys, const Scratch& s) const {
    pack_panels(rows_of_head(tensors_.k, job), key, keys, problem_.head_dim, s.k);
    pad_rows(rows_of_head(tensors_.v, job), key, keys, problem_.value_dim, s.v);
    for (std::int64_t r = 0; r < rows; r += double_tile.rows) {
      const std::int64_t together = std::min(double_tile.rows, rows - r);
      DoubleKeys visible[double_tile.rows];
      bool any = false;
      for (std::int64_t i = 0; i < together; ++i) {
        const std::int64_t low = std::clamp(s.visible[r + i].begin, key, key + keys);
        const std::int64_t high = std::clamp(s.visible[r + i].end, low, key + keys);
        visible[i] = {static_cast<std::int32_t>(low - key), static_cast<std::int32_t>(high - key)};
        any = any || low < high;
      }
      if (!any) continue;
      functions_.products(s.q + r * problem_.head_dim, s.k, problem_.head_dim, keys, s.scores);
      for (std::int64_t i = 0; i < together; ++i)
        weigh_row(geometry.address(job.kv_head, first + r + i), geometry, key, visible[i], i, s.max + r + i,
                  s.sum + r + i, s.out + (r + i) * width_, s);
      add_visible_values(functions_, s.scores, s.v, width_, together, visible,
                         options_.hides_keys() ? s.sees : nullptr, s.out + r * width_);
    }
  }

  // From the products of row i of a register tile to its weights; `out` is scaled to the new maximum.
  void weigh_row(const RowAddress& at, const Geometry& geometry, std::int64_t key, DoubleKeys keys,
                 std::int64_t i, double* max, double* sum, double* out, const Scratch& s) const {
    double* scores = s.scores + i * double_tile.block_kv;
    const Sequence& sequence = geometry.sequence();
    const DoubleOptions::Row row(options_, at,
                                 diagonal_offset(problem_.causal, sequence.query_len, sequence.kv_len));
    if (options_.transforms()) {
      std::uint8_t* sees = s.sees + i * double_tile.block_kv;
      for (std::int32_t j = keys.begin; j < keys.end; ++j) {
        const DoubleOptions::Score score = row.score(product_scale_ * scores[j], key + j);
        // A hidden key's score is replaced, whatever it was.
        scores[j] = score.visible ? score.value : -std::numeric_limits<double>::infinity();
        sees[j] = score.visible ? 1 : 0;
      }
    }
    const double rescale = functions_.weigh({scores, keys, exponent_scale_, max, sum});
    if (rescale != 1.0)
      for (std::int64_t c = 0; c < width_; ++c) out[c] *= rescale;
    if (options_.drops())
      for (std::int32_t j = keys.begin; j < keys.end; ++j)
        if (!row.kept(key + j)) scores[j] = 0;
  }

  // Folds the splits of a tile's rows into the first, in ascending order.
  void merge(const Job& job, std::int64_t item) const {
    const Geometry geometry(problem_, job.work->sequence);
    const std::int64_t first = first_row(job);
    const std::int64_t rows = std::min(double_tile.block_q, geometry.rows() - first);
    const Partial merged = memory_.partial(item, width_);
    for (std::int64_t split = 1; split < job.work->splits; ++split) {
      const Partial other = memory_.partial(item + split, width_);
      for (std::int64_t r = 0; r < rows; ++r) {
        // A split that saw no key has sum 0 and the lowest maximum: its factor is 0.
        const double max = std::max(merged.max[r], other.max[r]);
        const double before = merged.max[r] == max ? 1.0 : weight_of(merged.max[r] - max);
        const double added = other.max[r] == max ? 1.0 : weight_of(other.max[r] - max);
        merged.max[r] = max;
        merged.sum[r] = merged.sum[r] * before + other.sum[r] * added;
        double* out = merged.out + r * width_;
        const double* from = other.out + r * width_;
        for (std::int64_t c = 0; c < problem_.value_dim; ++c) out[c] = out[c] * before + from[c] * added;
      }
    }
    store(geometry, job, first, rows, merged);
  }

  // The weight of a score that lies x below the maximum.
  double weight_of(double x) const {
    double result = 0;
    functions_.exp2(&x, exponent_scale_, &result, 1);
    return result;
  }

  void store(const Geometry& geometry, const Job& job, std::int64_t first, std::int64_t rows,
             const Partial& state) const {
    for_each_run(geometry, job.kv_head, first, rows,
                 [&](const RowAddress& at, std::int64_t done, std::int64_t count) {
                   const std::int64_t batch = geometry.tensor_batch(at.batch);
                   for (std::int64_t r = done; r < done + count; ++r) {
                     const std::int64_t row = geometry.tensor_row(at) + r - done;
                     store_row(batch, at.head, row, state.out + r * width_, state.max[r], state.sum[r]);
                   }
                 });
  }

  void store_row(std::int64_t batch, std::int64_t head, std::int64_t row, const double* out, double max,
                 double sum) const {
    const auto at = [&](const TensorView& view) {
      return static_cast<double*>(view.data) + batch * view.strides[0] + head * view.strides[1] +
             row * view.strides[2];
    };
    double lse = sum == 0.0 ? -std::numeric_limits<double>::infinity() : max * natural_scale_ + std::log(sum);
    double factor = options_.kept_factor();
    if (options_.has_sink()) {
      const double sink = options_.sink(head), top = std::max(lse, sink);
      const double shift = top == -std::numeric_limits<double>::infinity() ? 0.0 : top;
      const double keys = sum == 0.0 ? 0.0 : std::exp(lse - shift), all = keys + std::exp(sink - shift);
      factor *= keys / all;
      lse = all == 0.0 ? -std::numeric_limits<double>::infinity() : shift + std::log(all);
    }
    double* o = at(tensors_.o);
    for (std::int64_t c = 0; c < problem_.value_dim; ++c)
      o[c * tensors_.o.strides[3]] = sum == 0.0 ? 0.0 : out[c] / sum * factor;
    if (tensors_.lse.data) *at(tensors_.lse) = lse;
  }

  const Problem& problem_;
  const Tensors& tensors_;
  std::int64_t num_splits_;
  Memory memory_;
  SequenceWork uniform_;
  DoubleOptions options_;
  const DoubleFunctions& functions_;
  std::int64_t width_;
  Workers workers_;
  double query_factor_ = 0;
  double product_scale_ = 1;  // from the product to natural units, where options need them
  double natural_scale_ = 0;  // from the scores that are weighed to natural units
  double exponent_scale_ = 1;
};

}  // namespace

std::optional<std::string> double_refuses(const Problem& p, const DeviceFacts& facts,
                                          const PlanOptions& options) {
  // Twice the size of what an f32 problem needs at most.
  const double threads = 2.0 * (options.threads > 0 ? options.threads : facts.threads);
  if (auto reason = too_large(p, 2, threads)) return reason;
  return too_large(p, 2 * static_cast<double>(choose_splits(p, options, double_tile.block_q)), threads);
}

void fill_double_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  plan.block_q = double_tile.block_q;
  plan.block_kv = double_tile.block_kv;
  plan.num_splits = choose_splits(plan.problem, options, double_tile.block_q);
  plan.work_items = all_items(plan.problem, plan.num_splits);
  plan.threads = threads_for(plan.work_items, facts, options);
  plan.workspace_bytes =
      plan.work_items == 0
          ? 0
          : static_cast<std::size_t>(Memory(plan.problem, plan.num_splits, plan.threads, nullptr).bytes);
}

Status run_double(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream) {
  return run_in_workspace<DoubleRun>(plan, tensors, workspace);
}

}  // namespace runmax::cpu
