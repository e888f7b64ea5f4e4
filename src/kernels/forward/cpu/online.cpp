// cpu_online: attention by key tiles with a running maximum, over KV heads x row tiles x splits of the keys.
#include <atomic>
#include <cmath>
#include <limits>
#include <new>

#include "kernels/forward/cpu/geometry.hpp"
#include "kernels/forward/cpu/kv_rows.hpp"
#include "kernels/forward/cpu/launch.hpp"
#include "kernels/forward/cpu/options.hpp"
#include "kernels/forward/cpu/rows_ahead.hpp"
#include "kernels/forward/cpu/tiles.hpp"
#include "kernels/forward/cpu/work.hpp"
#include "runtime/workers.hpp"

namespace runmax::cpu {
namespace {

// How many items of each step of a job are done.
class JobProgress {
 public:
  enum Step { packed, computed, merged };

  // `target`: the job's items of that step.
  void finish(Step step, std::int64_t target) {
    if (done_[step].fetch_add(1, std::memory_order_acq_rel) + 1 == target) done_[step].notify_all();
  }
  // Returns when `target` items of the step are done. Items begin in order, so what is waited for is at work.
  void wait(Step step, std::int64_t target) const {
    for (std::int64_t done = done_[step].load(std::memory_order_acquire); done < target;
         done = done_[step].load(std::memory_order_acquire))
      done_[step].wait(done, std::memory_order_acquire);
  }

 private:
  std::atomic<std::int64_t> done_[3] = {};
};

// Keys of a register tile, or about as many: between two of them memory is asked for ahead of its use.
constexpr std::int64_t tile_keys = 64;

// One thread's memory.
struct Scratch {
  float* q;
  float* scores;
  float* lane_max;
  float* out;
  RowStates states;
  TileKeys* keys;
  KeyRange* visible;
  float* k;
  float* v;
  float* stage;
  // Of options that hide keys.
  std::uint64_t* sees;  // (score_rows, visible_words)
  Options::Buffers gathered;
};

// Rows of another type, and of pages, are made FP32 and put side by side before they are packed.
bool needs_stage(const Problem& p) { return p.dtype != DType::f32 || p.page_size > 0; }
std::int64_t stage_floats(const Problem& p) {
  return needs_stage(p) ? forward_tile.panel * std::max(p.head_dim, p.value_dim) : 0;
}

struct Memory {
  SequenceWork* list = nullptr;     // (sequences)
  JobProgress* progress = nullptr;  // (kv heads of the batch)
  float* packed_k = nullptr;        // (slots, padded kv_len, head_dim)
  float* packed_v = nullptr;        // (slots, kv_len, padded value_dim)
  float* partial_out = nullptr;     // (slots, states, padded value_dim); states are (splits, rows) of a head
  float* partial_max = nullptr;     // (slots, states)
  float* partial_sum = nullptr;
  float* scratch = nullptr;
  std::int64_t scratch_floats = 0;  // of one thread
  std::int64_t bytes = 0;

  Memory(const Problem& p, const Schedule& s, std::int32_t threads, void* data) {
    Regions regions(data);
    const std::int64_t value_dim = padded(p.value_dim);
    list = regions.take_objects<SequenceWork>(s.sequences);
    if (s.slots > 0) progress = regions.take_objects<JobProgress>(Geometry(p).kv_heads());
    if (s.shared_pack) {
      packed_k = regions.take(s.slots * padded(s.kv_len) * p.head_dim);
      packed_v = regions.take(s.slots * s.kv_len * value_dim);
    }
    if (s.num_splits > 1) {
      const std::int64_t states = s.slots * s.states;
      partial_out = regions.take(states * value_dim);
      partial_max = regions.take(states);
      partial_sum = regions.take(states);
    }
    Regions one;
    scratch_of(p, s, one);
    scratch_floats = one.bytes() / static_cast<std::int64_t>(sizeof(float));
    scratch = regions.take(std::max(threads, 1) * scratch_floats);
    bytes = regions.bytes();
  }

  static Scratch scratch_of(const Problem& p, const Schedule& s, Regions& regions) {
    const std::int64_t rows = std::min(forward_tile.block_q, s.rows);
    const std::int64_t keys = s.own_pack ? std::min(forward_tile.block_kv, padded(s.kv_len)) : 0;
    Scratch scratch;
    scratch.q = regions.take(rows * p.head_dim);
    const std::int64_t score_rows = std::min(forward_tile.score_rows, rows);
    scratch.scores = regions.take(score_rows * score_stride);
    scratch.lane_max = regions.take(score_rows * forward_tile.panel);
    scratch.out = regions.take(rows * padded(p.value_dim));
    scratch.states.max = regions.take(rows);
    scratch.states.sum = regions.take(rows);
    scratch.states.rescale = regions.take(rows);
    static_assert(sizeof(TileKeys) == 2 * sizeof(float));
    scratch.keys = reinterpret_cast<TileKeys*>(regions.take(2 * rows));
    static_assert(sizeof(KeyRange) == 4 * sizeof(float));
    scratch.visible = reinterpret_cast<KeyRange*>(regions.take(4 * rows));
    scratch.k = regions.take(keys * p.head_dim);
    scratch.v = regions.take(keys * padded(p.value_dim));
    scratch.stage = regions.take(stage_floats(p));
    const bool hides = Options::hides_keys(p);
    scratch.sees = reinterpret_cast<std::uint64_t*>(regions.take(hides ? score_rows * 2 * visible_words : 0));
    scratch.gathered.bias = regions.take(hides ? forward_tile.block_kv : 0);
    scratch.gathered.mask = reinterpret_cast<std::uint8_t*>(
        regions.take(hides ? forward_tile.block_kv / std::int64_t{sizeof(float)} : 0));
    return scratch;
  }
};

class OnlineRun {
 public:
  OnlineRun(const Plan& plan, const Tensors& tensors, void* workspace)
      : problem_(plan.problem),
        tensors_(tensors),
        schedule_(problem_, plan.num_splits, plan.threads),
        memory_(problem_, schedule_, plan.threads, workspace),
        options_(problem_, tensors),
        product_scale_(split_scale(effective_scale(problem_))),
        scale_(options_.weight_scale(product_scale_)),
        score_units_(options_.score_units(product_scale_)),
        functions_(tile_functions()),
        option_functions_(option_functions()),
        value_dim_(padded(problem_.value_dim)),
        in_place_(problem_.page_size == 0 && values_in_place(tensors.v)),
        threads_(std::max(plan.threads, 1)),
        workers_(plan.threads) {}

  std::int64_t workspace_bytes() const { return memory_.bytes; }

  void run() {
    const WorkList list(problem_, schedule_.first, schedule_.sequences, tensors_.kv_lengths, memory_.list,
                        [&](const Sequence& sequence, std::int64_t batch) {
                          return work_of(problem_, schedule_.num_splits, sequence, batch);
                        });
    if (schedule_.slots > 0)
      for (std::int64_t job = 0; job < problem_.batch * problem_.kv_heads; ++job)
        new (memory_.progress + job) JobProgress;
    workers_.for_each(list.items(), [&](std::int64_t worker, std::int64_t item) {
      const Job job = list.job(item);
      if (schedule_.slots == 0)
        compute(worker, job, 0, job.item);
      else
        advance(worker, list, job);
    });
  }

 private:
  KvRows rows_of_head(const TensorView& view, const Job& job) const {
    const std::int64_t head = job.kv_head % problem_.kv_heads, batch = job.kv_head / problem_.kv_heads;
    if (problem_.page_size > 0)
      return {view, head, tensors_.page_table, batch, problem_.page_size, job.work->sequence.kv_len};
    return {view, problem_.varlen.empty() ? batch : 0, head, job.work->sequence.kv_start};
  }

  // One item of a job that has a slot, as soon as what it needs is there.
  void advance(std::int64_t worker, const WorkList& list, const Job& job) const {
    const SequenceWork& w = *job.work;
    const std::int64_t slot = job.index % schedule_.slots;
    JobProgress& progress = memory_.progress[job.index];
    std::int64_t item = job.item;
    if (item < w.pack_items) {
      wait_for_slot(list, job);
      pack(worker, job, slot, item);
      progress.finish(JobProgress::packed, w.pack_items);
      return;
    }
    item -= w.pack_items;
    if (item < w.compute_items) {
      if (w.pack_items > 0)
        progress.wait(JobProgress::packed, w.pack_items);
      else
        wait_for_slot(list, job);
      compute(worker, job, slot, item);
      progress.finish(JobProgress::computed, w.compute_items);
      return;
    }
    progress.wait(JobProgress::computed, w.compute_items);
    merge(job, slot, item - w.compute_items);
    progress.finish(JobProgress::merged, w.merge_items);
  }

  // Until the job that had the slot before is done.
  void wait_for_slot(const WorkList& list, const Job& job) const {
    std::int64_t before = job.index - schedule_.slots;
    // One without items, a sequence without queries, waited for nobody.
    while (before >= 0 && list.work_at(before).items() == 0) before -= schedule_.slots;
    if (before < 0) return;
    const SequenceWork& w = list.work_at(before);
    if (w.merge_items > 0)
      memory_.progress[before].wait(JobProgress::merged, w.merge_items);
    else
      memory_.progress[before].wait(JobProgress::computed, w.compute_items);
  }

  void pack(std::int64_t worker, const Job& job, std::int64_t slot, std::int64_t block) const {
    const std::int64_t key = block * forward_tile.block_kv;
    const std::int64_t keys = std::min(forward_tile.block_kv, job.work->sequence.kv_len - key);
    Regions regions(memory_.scratch + worker * memory_.scratch_floats);
    float* const stage = Memory::scratch_of(problem_, schedule_, regions).stage;
    pack_keys(rows_of_head(tensors_.k, job), key, keys, stage, packed_keys(slot, key));
    if (!in_place_)
      pack_values(rows_of_head(tensors_.v, job), key, keys, stage, key, packed_values(job, slot));
  }

  void pack_keys(const KvRows& k, std::int64_t key, std::int64_t keys, float* stage, float* packed) const {
    k.for_each_piece(key, keys, problem_.head_dim, stage,
                     [&](std::int64_t done, std::int64_t count, const StridedRows& rows) {
                       functions_.pack_keys(rows, count, problem_.head_dim,
                                            packed + done * problem_.head_dim);
                     });
  }

  void pack_values(const KvRows& v, std::int64_t key, std::int64_t keys, float* stage, std::int64_t first_key,
                   const PackedValues& packed) const {
    v.for_each_piece(key, keys, problem_.value_dim, stage,
                     [&](std::int64_t done, std::int64_t count, const StridedRows& rows) {
                       functions_.pack_values(rows, count, problem_.value_dim, first_key + done, packed);
                     });
  }

  float* packed_keys(std::int64_t slot, std::int64_t key) const {
    return memory_.packed_k + (slot * padded(schedule_.kv_len) + key) * problem_.head_dim;
  }

  PackedValues packed_values(const Job& job, std::int64_t slot) const {
    return {memory_.packed_v + slot * schedule_.kv_len * value_dim_, job.work->sequence.kv_len};
  }

  // Points the tile's K and V at the shared packs, or packs them for this tile alone.
  void take_keys(const Scratch& scratch, const Job& job, std::int64_t slot, std::int64_t key,
                 std::int64_t keys, ScoreTile& scores, ValueTile& values) const {
    const KvRows v = rows_of_head(tensors_.v, job);
    if (job.work->shared_pack) {
      scores.k = packed_keys(slot, key);
      values.v =
          in_place_ ? values_where_they_lie(v.strided(key), false) : rows_of(packed_values(job, slot), key);
      return;
    }
    const Geometry geometry = geometry_of(job);
    if (!sums_keys_as_rows(job, geometry)) {
      pack_keys(rows_of_head(tensors_.k, job), key, keys, scratch.stage, scratch.k);
      scores.k = scratch.k;
    }
    const bool few_rows = has_few_rows(job, geometry);
    if (in_place_ || (few_rows && v.direct() && tensors_.v.strides[3] == 1 && tensors_.v.strides[2] != 0 &&
                      problem_.value_dim == value_dim_)) {
      values.v = values_where_they_lie(v.strided(key), true);
    } else if (few_rows && problem_.value_dim == value_dim_) {
      // Nor for more than making them FP32.
      v.for_each_run(key, keys, [&](std::int64_t done, std::int64_t count, const ElementRows& rows) {
        element_functions().widen(rows, count, value_dim_, scratch.v + done * value_dim_);
      });
      values.v = values_where_they_lie({scratch.v, value_dim_, 1}, false);
    } else {
      const PackedValues packed{scratch.v, keys};
      pack_values(v, key, keys, scratch.stage, 0, packed);
      values.v = rows_of(packed, 0);
    }
  }

  Geometry geometry_of(const Job& job) const { return {problem_, job.work->sequence}; }

  // The first partial result of a tile's rows in a split.
  std::int64_t state_of(const Geometry& geometry, std::int64_t slot, std::int64_t split,
                        std::int64_t first) const {
    return slot * schedule_.states + split * geometry.rows() + first;
  }

  // A few rows read K and V too seldom to pay for packing them.
  static bool has_few_rows(const Job& job, const Geometry& geometry) {
    return !job.work->shared_pack && geometry.rows() <= 2 * forward_tile.rows;
  }
  // Their scores are summed in another order than a register tile's: not where a row alone must have the bits
  // that it has among others.
  bool sums_keys_as_rows(const Job& job, const Geometry& geometry) const {
    return has_few_rows(job, geometry) && !problem_.batch_invariant;
  }

  // Scores of a few rows, with keys as they lie, or side by side if their channels are not.
  void few_rows_scores(const Scratch& scratch, const ScoreTile& scores, const Job& job, std::int64_t key,
                       std::int64_t keys) const {
    FewRowsTile few;
    few.q = scores.q;
    few.head_dim = scores.head_dim;
    few.rows = scores.rows;
    few.keys = scores.keys;
    few.scores = scores.scores;
    few.scores_stride = scores.scores_stride;
    rows_of_head(tensors_.k, job)
        .for_each_run(key, keys, [&](std::int64_t done, std::int64_t count, const ElementRows& rows) {
          few.k = rows;
          few.range = {static_cast<std::int32_t>(done), static_cast<std::int32_t>(done + count)};
          if (rows.channel_stride != 1) {
            element_functions().widen(rows, count, few.head_dim, scratch.k);
            few.k = {scratch.k, DType::f32, few.head_dim, 1};
          }
          functions_.few_rows_scores(few);
        });
  }

  void compute(std::int64_t worker, const Job& job, std::int64_t slot, std::int64_t item) const {
    const SequenceWork& w = *job.work;
    const Geometry geometry = geometry_of(job);
    const std::int64_t kv_len = w.sequence.kv_len;
    const std::int64_t split = item % w.splits;
    // Under a causal mask the last rows have the most keys: longest first.
    const std::int64_t tile = w.row_tiles - 1 - item / w.splits;
    Regions regions(memory_.scratch + worker * memory_.scratch_floats);
    Scratch scratch = Memory::scratch_of(problem_, schedule_, regions);
    const std::int64_t first = tile * geometry.block_q();
    const std::int64_t rows = std::min(geometry.block_q(), geometry.rows() - first);
    if (schedule_.num_splits > 1) {
      const std::int64_t state = state_of(geometry, slot, split, first);
      scratch.out = memory_.partial_out + state * value_dim_;
      scratch.states.max = memory_.partial_max + state;
      scratch.states.sum = memory_.partial_sum + state;
    }
    std::fill(scratch.out, scratch.out + rows * value_dim_, 0.0f);
    std::fill(scratch.states.max, scratch.states.max + rows, std::numeric_limits<float>::lowest());
    std::fill(scratch.states.sum, scratch.states.sum + rows, 0.0f);

    KeyRange all{kv_len, 0};
    for (std::int64_t r = 0; r < rows; ++r) {
      const KeyRange keys = scratch.visible[r] = geometry.keys(first + r);
      if (keys.begin >= keys.end) continue;
      all.begin = std::min(all.begin, keys.begin);
      all.end = std::max(all.end, keys.end);
    }
    const std::int64_t split_begin = split * w.split_keys;
    const std::int64_t split_end = std::min(split_begin + w.split_keys, kv_len);
    const std::int64_t begin = std::max(all.begin, split_begin);
    const std::int64_t end = std::min(all.end, split_end);

    if (begin < end) {
      scale_query_tile(geometry, tensors_.q, job.kv_head, first, rows, scale_.query_factor, scratch.stage,
                       scratch.q);
      Ahead ahead;
      if (schedule_.num_splits == 1) ahead = rows_ahead(geometry, tensors_, job.kv_head, tile, threads_);
      ahead.spread(ceil_div(rows, forward_tile.rows) * ceil_div(end - begin, tile_keys));
      // Tiles lie at fixed keys of the split, whatever the rows see: a row's sums have the same bits in any
      // tile.
      for (std::int64_t key =
               split_begin + (begin - split_begin) / forward_tile.block_kv * forward_tile.block_kv;
           key < end; key += forward_tile.block_kv)
        add_tile(scratch, job, geometry, slot, first, rows, key,
                 std::min(key + forward_tile.block_kv, split_end), ahead);
    }
    if (schedule_.num_splits > 1) return;
    store_rows(geometry, tensors_, functions_, job.kv_head, first, rows, scratch.out, scratch.states.max,
               scratch.states.sum, scale_, options_.row_end());
  }

  void add_tile(const Scratch& scratch, const Job& job, const Geometry& geometry, std::int64_t slot,
                std::int64_t first, std::int64_t rows, std::int64_t key, std::int64_t end,
                Ahead& ahead) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      const KeyRange keys = scratch.visible[r];
      const std::int64_t low = std::clamp(keys.begin, key, end);
      const std::int64_t high = std::clamp(keys.end, low, end);
      scratch.keys[r] = {static_cast<std::int32_t>(low - key), static_cast<std::int32_t>(high - key)};
    }
    if (options_.hides_keys() && !leave_out_hidden_rows(scratch, geometry, job.kv_head, first, rows, key))
      return;
    ScoreTile scores;
    scores.head_dim = problem_.head_dim;
    scores.scores = scratch.scores;
    scores.scores_stride = score_stride;
    // Options move the maximum: their own pass finds it.
    scores.lane_max = options_.transforms() ? nullptr : scratch.lane_max;
    scores.ahead = &ahead;
    WeightTile weights;
    weights.scores = scratch.scores;
    weights.scores_stride = score_stride;
    const bool keys_as_rows = sums_keys_as_rows(job, geometry);
    weights.lane_max = keys_as_rows && !options_.transforms() ? nullptr : scratch.lane_max;
    weights.exponent_scale = scale_.exponent_scale;
    ValueTile values;
    values.weights = scratch.scores;
    values.weights_stride = score_stride;
    values.padded_value_dim = value_dim_;
    values.visible = options_.hides_keys() ? scratch.sees : nullptr;
    take_keys(scratch, job, slot, key, end - key, scores, values);
    for (std::int64_t r = 0; r < rows; r += forward_tile.score_rows) {
      scores.q = scratch.q + r * problem_.head_dim;
      scores.keys = weights.keys = values.keys = scratch.keys + r;
      scores.rows = weights.rows = values.rows = std::min(forward_tile.score_rows, rows - r);
      weights.states = {scratch.states.max + r, scratch.states.sum + r, scratch.states.rescale + r};
      values.rescale = weights.states.rescale;
      values.out = scratch.out + r * value_dim_;
      if (keys_as_rows)
        few_rows_scores(scratch, scores, job, key, end - key);
      else
        functions_.scores(scores);
      if (options_.transforms()) transform(scratch, scores, geometry, job.kv_head, first + r, key);
      functions_.weights(weights);
      if (options_.drops()) drop(scores, geometry, job.kv_head, first + r, key);
      if (options_.hides_keys())
        functions_.masked_values(values);
      else
        functions_.values(values);
    }
  }

  // Takes a tile's keys from register tiles of rows to which mask and bias hide all of them; a single such
  // row keeps them, so that the six stay together. False if nothing is left.
  bool leave_out_hidden_rows(const Scratch& scratch, const Geometry& geometry, std::int64_t kv_head,
                             std::int64_t first, std::int64_t rows, std::int64_t key) const {
    bool any = false;
    for (std::int64_t tile = 0; tile < rows; tile += forward_tile.rows) {
      const std::int64_t end = std::min(tile + forward_tile.rows, rows);
      bool sees = false;
      for (std::int64_t r = tile; r < end && !sees; ++r)
        sees = options_.sees_any(geometry.address(kv_head, first + r), key, scratch.keys[r]);
      if (!sees) std::fill(scratch.keys + tile, scratch.keys + end, TileKeys{});
      any = any || sees;
    }
    return any;
  }

  // Rows of a block of scores, the first of which is row `first` of the KV head; keys from `key` on.
  template <class Row>
  void for_each_row_of(const ScoreTile& scores, const Geometry& geometry, std::int64_t kv_head,
                       std::int64_t first, Row row) const {
    for_each_run(geometry, kv_head, first, scores.rows,
                 [&](RowAddress at, std::int64_t done, std::int64_t count) {
                   for (std::int64_t r = done; r < done + count; ++r, ++at.query)
                     row(at, scores.keys[r], scores.scores + r * scores.scores_stride, r);
                 });
  }

  void transform(const Scratch& scratch, const ScoreTile& scores, const Geometry& geometry,
                 std::int64_t kv_head, std::int64_t first, std::int64_t key) const {
    const std::int64_t offset =
        diagonal_offset(problem_.causal, geometry.sequence().query_len, geometry.sequence().kv_len);
    for_each_row_of(scores, geometry, kv_head, first,
                    [&](const RowAddress& at, TileKeys keys, float* row_scores, std::int64_t r) {
                      OptionRow row = options_.row(at, offset, key, keys, scratch.gathered);
                      row.scores = row_scores;
                      row.lane_max = scratch.lane_max + r * forward_tile.panel;
                      if (options_.hides_keys()) row.visible = scratch.sees + r * visible_words;
                      option_functions_.transform(score_units_, row);
                    });
  }

  void drop(const ScoreTile& scores, const Geometry& geometry, std::int64_t kv_head, std::int64_t first,
            std::int64_t key) const {
    for_each_row_of(scores, geometry, kv_head, first,
                    [&](const RowAddress& at, TileKeys keys, float* weights, std::int64_t) {
                      option_functions_.drop(weights, keys, options_.dropout_key(at),
                                             options_.dropout_threshold_word(), at.query, key);
                    });
  }

  // Folds the splits of a tile's rows into the first, in ascending order, with the algebra of
  // online_softmax.hpp.
  void merge(const Job& job, std::int64_t slot, std::int64_t tile) const {
    const Geometry geometry = geometry_of(job);
    const std::int64_t first = tile * geometry.block_q();
    const std::int64_t rows = std::min(geometry.block_q(), geometry.rows() - first);
    const std::int64_t states = state_of(geometry, slot, 0, first);
    const auto exp = [this](float x) { return weight_of(x); };
    for (std::int64_t at = states; at < states + rows; ++at) {
      float* out = memory_.partial_out + at * value_dim_;
      SoftmaxState<float> state = partial(at);
      for (std::int64_t split = 1; split < job.work->splits; ++split) {
        const std::int64_t other = at + split * geometry.rows();
        const auto merged = softmax_merge(state, partial(other), exp);
        const float* add = memory_.partial_out + other * value_dim_;
        for (std::int64_t c = 0; c < problem_.value_dim; ++c) out[c] = merged.output(out[c], add[c]);
        state = merged.state;
      }
      memory_.partial_max[at] = state.max;
      memory_.partial_sum[at] = state.sum;
    }
    store_rows(geometry, tensors_, functions_, job.kv_head, first, rows,
               memory_.partial_out + states * value_dim_, memory_.partial_max + states,
               memory_.partial_sum + states, scale_, options_.row_end());
  }

  // The weight of a score that lies x below the maximum.
  float weight_of(float x) const {
    float result = 0;
    functions_.exp2(&x, scale_.exponent_scale, &result, 1);
    return result;
  }

  // A split that saw no key is the neutral state, whose max is -inf.
  SoftmaxState<float> partial(std::int64_t state) const {
    const float sum = memory_.partial_sum[state];
    if (sum == 0.0f) return {};
    return {memory_.partial_max[state], sum};
  }

  const Problem& problem_;
  const Tensors& tensors_;
  Schedule schedule_;
  Memory memory_;
  Options options_;
  ScaleParts product_scale_;  // of the scores as the product gives them
  ScaleParts scale_;          // of the scores as options leave them
  ScoreUnits score_units_;
  const TileFunctions& functions_;
  const OptionFunctions& option_functions_;
  std::int64_t value_dim_;
  bool in_place_;
  std::int64_t threads_;
  Workers workers_;
};

}  // namespace

std::optional<std::string> online_refuses(const Problem& p, const DeviceFacts& facts,
                                          const PlanOptions& options) {
  if (auto reason = too_large(p, 1, 1)) return reason;
  const std::int32_t threads = options.threads > 0 ? options.threads : facts.threads;
  return too_large(p, static_cast<double>(choose_splits(p, options, forward_tile.small_block_q)), threads);
}

void fill_online_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  const Problem& p = plan.problem;
  plan.block_q = Geometry(plan.problem).block_q();
  plan.block_kv = forward_tile.block_kv;
  plan.num_splits = choose_splits(p, options, forward_tile.small_block_q);
  plan.work_items = Schedule(p, plan.num_splits, 1).compute_items;
  plan.threads = threads_for(plan.work_items, facts, options);
  if (plan.work_items == 0) return;
  const Schedule schedule(p, plan.num_splits, plan.threads);
  plan.workspace_bytes = static_cast<std::size_t>(Memory(p, schedule, plan.threads, nullptr).bytes);
}

Status run_online(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream) {
  return run_in_workspace<OnlineRun>(plan, tensors, workspace);
}

}  // namespace runmax::cpu
