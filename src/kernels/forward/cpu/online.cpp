// cpu_online: attention by key tiles with a running maximum, over KV heads x row tiles x splits of the keys.
#include <atomic>
#include <limits>
#include <new>

#include "kernels/forward/cpu/geometry.hpp"
#include "kernels/forward/cpu/launch.hpp"
#include "kernels/forward/cpu/options.hpp"
#include "kernels/forward/cpu/tiles.hpp"
#include "runtime/workers.hpp"

namespace runmax::cpu {
namespace {

// How the work of a call is cut and ordered. Each KV head has its items: pack its keys, compute its row tiles
// (one item for each tile and split), merge the splits. Packed keys and partial results lie in a ring of
// slots, so that they are used while they are still in the cache, and so that memory does not grow with the
// number of heads.
struct Schedule {
  std::int64_t num_splits = 1;
  std::int64_t split_keys = 0;  // keys of a split, a multiple of the panel
  // With one row tile every key is used once, and packing it in the tile that uses it costs no memory; with
  // several, packed K and V serve them all.
  bool shared_pack = false;
  std::int64_t pack_items = 0, compute_items = 0, merge_items = 0;  // of one KV head
  std::int64_t slots = 0;                                           // 0: nothing is held between items

  Schedule(const Geometry& g, std::int64_t splits, std::int32_t threads) : num_splits(splits) {
    const std::int64_t kv_len = g.problem().kv_len;
    split_keys = std::max(padded(ceil_div(kv_len, splits)), forward_tile.panel);
    shared_pack = g.row_tiles() > 1;
    pack_items = shared_pack ? ceil_div(kv_len, forward_tile.block_kv) : 0;
    compute_items = g.row_tiles() * splits;
    merge_items = splits > 1 ? g.row_tiles() : 0;
    if (!shared_pack && splits == 1) return;
    // Enough heads in flight that no thread waits for the last tiles of one.
    const std::int64_t others =
        threads > 1 ? ceil_div(2 * std::int64_t{threads}, std::max<std::int64_t>(compute_items, 1)) : 0;
    slots = std::min(g.kv_heads(), 1 + others);
  }
};

// How far the head in a slot has come. Counters only grow: a slot's n-th head is packed when `packed` reaches
// n times the items of packing.
class SlotProgress {
 public:
  enum Step { packed, computed, merged };

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

std::int64_t choose_splits(const Geometry& g, const PlanOptions& options) {
  const Problem& p = g.problem();
  const std::int64_t most = std::max<std::int64_t>(ceil_div(p.kv_len, forward_tile.panel), 1);
  if (options.num_splits > 0) return std::min<std::int64_t>(options.num_splits, most);
  const std::int64_t longest = std::max<std::int64_t>(p.kv_len / split_policy.keys, 1);
  // Bits that do not depend on the batch: as many splits as the keys alone allow, within reason.
  if (p.batch_invariant) return std::min<std::int64_t>(longest, 16);
  const std::int64_t items = std::max<std::int64_t>(g.kv_heads() * g.row_tiles(), 1);
  return std::min(longest, ceil_div(split_policy.items, items));
}

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
  // Of options that hide keys.
  std::uint64_t* sees;  // (score_rows, visible_words)
  Options::Buffers gathered;
};

struct Memory {
  SlotProgress* progress = nullptr;  // (slots)
  float* packed_k = nullptr;         // (slots, padded kv_len, head_dim)
  float* packed_v = nullptr;         // (slots, kv_len, padded value_dim)
  float* partial_out = nullptr;      // (slots, num_splits, rows, padded value_dim)
  float* partial_max = nullptr;      // (slots, num_splits, rows)
  float* partial_sum = nullptr;
  float* scratch = nullptr;
  std::int64_t scratch_floats = 0;  // of one thread
  std::int64_t bytes = 0;

  Memory(const Geometry& g, const Schedule& s, std::int32_t threads, void* data) {
    const Problem& p = g.problem();
    Regions regions(data);
    const std::int64_t value_dim = padded(p.value_dim);
    progress = reinterpret_cast<SlotProgress*>(
        regions.take(s.slots * static_cast<std::int64_t>(sizeof(SlotProgress) / sizeof(float))));
    if (s.shared_pack) {
      packed_k = regions.take(s.slots * padded(p.kv_len) * p.head_dim);
      packed_v = regions.take(s.slots * p.kv_len * value_dim);
    }
    if (s.num_splits > 1) {
      const std::int64_t states = s.slots * s.num_splits * g.rows();
      partial_out = regions.take(states * value_dim);
      partial_max = regions.take(states);
      partial_sum = regions.take(states);
    }
    Regions one;
    scratch_of(g, s, one);
    scratch_floats = one.bytes() / static_cast<std::int64_t>(sizeof(float));
    scratch = regions.take(std::max(threads, 1) * scratch_floats);
    bytes = regions.bytes();
  }

  static Scratch scratch_of(const Geometry& g, const Schedule& s, Regions& regions) {
    const Problem& p = g.problem();
    const std::int64_t rows = std::min(forward_tile.block_q, g.rows());
    const std::int64_t keys = s.shared_pack ? 0 : std::min(forward_tile.block_kv, padded(p.kv_len));
    Scratch scratch;
    scratch.q = regions.take(packed_query_floats(rows, p.head_dim));
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
        geometry_(problem_),
        schedule_(geometry_, plan.num_splits, plan.threads),
        memory_(geometry_, schedule_, plan.threads, workspace),
        options_(problem_, tensors),
        product_scale_(split_scale(effective_scale(problem_))),
        scale_(options_.weight_scale(product_scale_)),
        score_units_(options_.score_units(product_scale_)),
        functions_(tile_functions()),
        option_functions_(option_functions()),
        value_dim_(padded(problem_.value_dim)),
        in_place_(values_in_place(tensors.v)),
        workers_(plan.threads) {}

  std::int64_t workspace_bytes() const { return memory_.bytes; }

  void run() {
    const Schedule& s = schedule_;
    for (std::int64_t slot = 0; slot < s.slots; ++slot) new (memory_.progress + slot) SlotProgress;
    const std::int64_t items = s.pack_items + s.compute_items + s.merge_items;
    workers_.for_each(geometry_.kv_heads() * items, [&](std::int64_t worker, std::int64_t item) {
      const std::int64_t kv_head = item / items;
      if (s.slots == 0)
        compute(worker, kv_head, 0, item % items);
      else
        advance(worker, kv_head, item % items);
    });
  }

 private:
  StridedRows k_rows(std::int64_t kv_head, std::int64_t key) const {
    return head_rows(tensors_.k, kv_head / problem_.kv_heads, kv_head % problem_.kv_heads, key);
  }
  StridedRows v_rows(std::int64_t kv_head, std::int64_t key) const {
    return head_rows(tensors_.v, kv_head / problem_.kv_heads, kv_head % problem_.kv_heads, key);
  }

  // One item of a head that has a slot, as soon as what it needs is there.
  void advance(std::int64_t worker, std::int64_t kv_head, std::int64_t item) const {
    const Schedule& s = schedule_;
    const std::int64_t slot = kv_head % s.slots;
    const std::int64_t before = kv_head / s.slots;  // heads that had the slot
    SlotProgress& progress = memory_.progress[slot];
    if (item < s.pack_items) {
      wait_for_slot(progress, before);
      pack(kv_head, slot, item);
      progress.finish(SlotProgress::packed, (before + 1) * s.pack_items);
      return;
    }
    item -= s.pack_items;
    if (item < s.compute_items) {
      if (s.pack_items > 0)
        progress.wait(SlotProgress::packed, (before + 1) * s.pack_items);
      else
        wait_for_slot(progress, before);
      compute(worker, kv_head, slot, item);
      progress.finish(SlotProgress::computed, (before + 1) * s.compute_items);
      return;
    }
    progress.wait(SlotProgress::computed, (before + 1) * s.compute_items);
    merge(kv_head, slot, item - s.compute_items);
    progress.finish(SlotProgress::merged, (before + 1) * s.merge_items);
  }

  void wait_for_slot(const SlotProgress& progress, std::int64_t before) const {
    if (schedule_.merge_items > 0)
      progress.wait(SlotProgress::merged, before * schedule_.merge_items);
    else
      progress.wait(SlotProgress::computed, before * schedule_.compute_items);
  }

  void pack(std::int64_t kv_head, std::int64_t slot, std::int64_t block) const {
    const std::int64_t key = block * forward_tile.block_kv;
    const std::int64_t keys = std::min(forward_tile.block_kv, problem_.kv_len - key);
    functions_.pack_keys(k_rows(kv_head, key), keys, problem_.head_dim,
                         memory_.packed_k + (slot * padded(problem_.kv_len) + key) * problem_.head_dim);
    if (!in_place_)
      functions_.pack_values(v_rows(kv_head, key), keys, problem_.value_dim, key, packed_values(slot));
  }

  PackedValues packed_values(std::int64_t slot) const {
    return {memory_.packed_v + slot * problem_.kv_len * value_dim_, problem_.kv_len};
  }

  // Points the tile's K and V at the shared packs, or packs them for this tile alone.
  void take_keys(const Scratch& scratch, std::int64_t kv_head, std::int64_t slot, std::int64_t key,
                 std::int64_t keys, ScoreTile& scores, ValueTile& values) const {
    if (schedule_.shared_pack) {
      scores.k = memory_.packed_k + (slot * padded(problem_.kv_len) + key) * problem_.head_dim;
      values.v =
          in_place_ ? values_where_they_lie(v_rows(kv_head, key), false) : rows_of(packed_values(slot), key);
      return;
    }
    functions_.pack_keys(k_rows(kv_head, key), keys, problem_.head_dim, scratch.k);
    scores.k = scratch.k;
    const StridedRows v = v_rows(kv_head, key);
    // A few rows read V too seldom to pay for packing it.
    const bool few_rows = geometry_.rows() <= 2 * forward_tile.rows;
    if (in_place_ ||
        (few_rows && v.channel_stride == 1 && v.row_stride != 0 && problem_.value_dim == value_dim_)) {
      values.v = values_where_they_lie(v, true);
    } else {
      const PackedValues packed{scratch.v, keys};
      functions_.pack_values(v, keys, problem_.value_dim, 0, packed);
      values.v = rows_of(packed, 0);
    }
  }

  void compute(std::int64_t worker, std::int64_t kv_head, std::int64_t slot, std::int64_t item) const {
    const std::int64_t split = item % schedule_.num_splits;
    // Under a causal mask the last rows have the most keys: longest first.
    const std::int64_t tile = geometry_.row_tiles() - 1 - item / schedule_.num_splits;
    Regions regions(memory_.scratch + worker * memory_.scratch_floats);
    Scratch scratch = Memory::scratch_of(geometry_, schedule_, regions);
    const std::int64_t first = tile * forward_tile.block_q;
    const std::int64_t rows = std::min(forward_tile.block_q, geometry_.rows() - first);
    if (schedule_.num_splits > 1) {
      const std::int64_t state = (slot * schedule_.num_splits + split) * geometry_.rows() + first;
      scratch.out = memory_.partial_out + state * value_dim_;
      scratch.states.max = memory_.partial_max + state;
      scratch.states.sum = memory_.partial_sum + state;
    }
    std::fill(scratch.out, scratch.out + rows * value_dim_, 0.0f);
    std::fill(scratch.states.max, scratch.states.max + rows, std::numeric_limits<float>::lowest());
    std::fill(scratch.states.sum, scratch.states.sum + rows, 0.0f);

    KeyRange all{problem_.kv_len, 0};
    for (std::int64_t r = 0; r < rows; ++r) {
      const KeyRange keys = scratch.visible[r] = geometry_.keys(first + r);
      if (keys.begin >= keys.end) continue;
      all.begin = std::min(all.begin, keys.begin);
      all.end = std::max(all.end, keys.end);
    }
    const std::int64_t split_begin = split * schedule_.split_keys;
    const std::int64_t split_end = std::min(split_begin + schedule_.split_keys, problem_.kv_len);
    const std::int64_t begin = std::max(all.begin, split_begin);
    const std::int64_t end = std::min(all.end, split_end);

    if (begin < end) {
      pack_query_tile(geometry_, tensors_.q, kv_head, first, rows, scale_.query_factor, scratch.q);
      // Tiles lie at fixed keys of the split, whatever the rows see: a row's sums have the same bits in any
      // tile.
      for (std::int64_t key =
               split_begin + (begin - split_begin) / forward_tile.block_kv * forward_tile.block_kv;
           key < end; key += forward_tile.block_kv)
        add_tile(scratch, kv_head, slot, first, rows, key, std::min(key + forward_tile.block_kv, split_end));
    }
    if (schedule_.num_splits > 1) return;
    store_rows(geometry_, tensors_, functions_, kv_head, first, rows, scratch.out, scratch.states.max,
               scratch.states.sum, scale_, options_.row_end());
  }

  void add_tile(const Scratch& scratch, std::int64_t kv_head, std::int64_t slot, std::int64_t first,
                std::int64_t rows, std::int64_t key, std::int64_t end) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      const KeyRange keys = scratch.visible[r];
      const std::int64_t low = std::clamp(keys.begin, key, end);
      const std::int64_t high = std::clamp(keys.end, low, end);
      scratch.keys[r] = {static_cast<std::int32_t>(low - key), static_cast<std::int32_t>(high - key)};
    }
    if (options_.hides_keys() && !leave_out_hidden_rows(scratch, kv_head, first, rows, key)) return;
    ScoreTile scores;
    scores.head_dim = problem_.head_dim;
    scores.scores = scratch.scores;
    scores.scores_stride = score_stride;
    // Options move the maximum: their own pass finds it.
    scores.lane_max = options_.transforms() ? nullptr : scratch.lane_max;
    WeightTile weights;
    weights.scores = scratch.scores;
    weights.scores_stride = score_stride;
    weights.lane_max = scratch.lane_max;
    weights.exponent_scale = scale_.exponent_scale;
    ValueTile values;
    values.weights = scratch.scores;
    values.weights_stride = score_stride;
    values.padded_value_dim = value_dim_;
    values.visible = options_.hides_keys() ? scratch.sees : nullptr;
    take_keys(scratch, kv_head, slot, key, end - key, scores, values);
    for (std::int64_t r = 0; r < rows; r += forward_tile.score_rows) {
      scores.q = scratch.q + r * problem_.head_dim;
      scores.keys = weights.keys = values.keys = scratch.keys + r;
      scores.rows = weights.rows = values.rows = std::min(forward_tile.score_rows, rows - r);
      weights.states = {scratch.states.max + r, scratch.states.sum + r, scratch.states.rescale + r};
      values.rescale = weights.states.rescale;
      values.out = scratch.out + r * value_dim_;
      functions_.scores(scores);
      if (options_.transforms()) transform(scratch, scores, kv_head, first + r, key);
      functions_.weights(weights);
      if (options_.drops()) drop(scores, kv_head, first + r, key);
      if (options_.hides_keys())
        functions_.masked_values(values);
      else
        functions_.values(values);
    }
  }

  // Takes a tile's keys from register tiles of rows to which mask and bias hide all of them; a single such
  // row keeps them, so that the six stay together. False if nothing is left.
  bool leave_out_hidden_rows(const Scratch& scratch, std::int64_t kv_head, std::int64_t first,
                             std::int64_t rows, std::int64_t key) const {
    bool any = false;
    for (std::int64_t tile = 0; tile < rows; tile += forward_tile.rows) {
      const std::int64_t end = std::min(tile + forward_tile.rows, rows);
      bool sees = false;
      for (std::int64_t r = tile; r < end && !sees; ++r)
        sees = options_.sees_any(geometry_.address(kv_head, first + r), key, scratch.keys[r]);
      if (!sees) std::fill(scratch.keys + tile, scratch.keys + end, TileKeys{});
      any = any || sees;
    }
    return any;
  }

  // Rows of a block of scores, the first of which is row `first` of the KV head; keys from `key` on.
  template <class Row>
  void for_each_row_of(const ScoreTile& scores, std::int64_t kv_head, std::int64_t first, Row row) const {
    for_each_run(geometry_, kv_head, first, scores.rows,
                 [&](RowAddress at, std::int64_t done, std::int64_t count) {
                   for (std::int64_t r = done; r < done + count; ++r, ++at.query)
                     row(at, scores.keys[r], scores.scores + r * scores.scores_stride, r);
                 });
  }

  void transform(const Scratch& scratch, const ScoreTile& scores, std::int64_t kv_head, std::int64_t first,
                 std::int64_t key) const {
    const std::int64_t offset = diagonal_offset(problem_.causal, problem_.query_len, problem_.kv_len);
    for_each_row_of(scores, kv_head, first,
                    [&](const RowAddress& at, TileKeys keys, float* row_scores, std::int64_t r) {
                      OptionRow row = options_.row(at, offset, key, keys, scratch.gathered);
                      row.scores = row_scores;
                      row.lane_max = scratch.lane_max + r * forward_tile.panel;
                      if (options_.hides_keys()) row.visible = scratch.sees + r * visible_words;
                      option_functions_.transform(score_units_, row);
                    });
  }

  void drop(const ScoreTile& scores, std::int64_t kv_head, std::int64_t first, std::int64_t key) const {
    for_each_row_of(scores, kv_head, first,
                    [&](const RowAddress& at, TileKeys keys, float* weights, std::int64_t) {
                      option_functions_.drop(weights, keys, options_.dropout_key(at),
                                             options_.dropout_threshold_word(), at.query, key);
                    });
  }

  // Folds the splits of a tile's rows into the first, in ascending order, with the algebra of
  // online_softmax.hpp.
  void merge(std::int64_t kv_head, std::int64_t slot, std::int64_t tile) const {
    const std::int64_t first = tile * forward_tile.block_q;
    const std::int64_t rows = std::min(forward_tile.block_q, geometry_.rows() - first);
    const std::int64_t states = slot * schedule_.num_splits * geometry_.rows() + first;
    const auto exp = [this](float x) { return weight_of(x); };
    for (std::int64_t at = states; at < states + rows; ++at) {
      float* out = memory_.partial_out + at * value_dim_;
      SoftmaxState<float> state = partial(at);
      for (std::int64_t split = 1; split < schedule_.num_splits; ++split) {
        const std::int64_t other = at + split * geometry_.rows();
        const auto merged = softmax_merge(state, partial(other), exp);
        const float* add = memory_.partial_out + other * value_dim_;
        for (std::int64_t c = 0; c < problem_.value_dim; ++c) out[c] = merged.output(out[c], add[c]);
        state = merged.state;
      }
      memory_.partial_max[at] = state.max;
      memory_.partial_sum[at] = state.sum;
    }
    store_rows(geometry_, tensors_, functions_, kv_head, first, rows,
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
  Geometry geometry_;
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
  Workers workers_;
};

}  // namespace

std::optional<std::string> online_refuses(const Problem& p, const DeviceFacts& facts,
                                          const PlanOptions& options) {
  if (auto reason = too_large(p, 1, 1)) return reason;
  const std::int32_t threads = options.threads > 0 ? options.threads : facts.threads;
  return too_large(p, static_cast<double>(choose_splits(Geometry(p), options)), threads);
}

void fill_online_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  const Geometry geometry(plan.problem);
  plan.block_q = forward_tile.block_q;
  plan.block_kv = forward_tile.block_kv;
  plan.num_splits = choose_splits(geometry, options);
  plan.work_items = geometry.kv_heads() * geometry.row_tiles() * plan.num_splits;
  plan.threads = threads_for(plan.work_items, facts, options);
  if (plan.work_items == 0) return;
  const Schedule schedule(geometry, plan.num_splits, plan.threads);
  plan.workspace_bytes = static_cast<std::size_t>(Memory(geometry, schedule, plan.threads, nullptr).bytes);
}

Status run_online(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream) {
  return run_in_workspace<OnlineRun>(plan, tensors, workspace);
}

}  // namespace runmax::cpu
