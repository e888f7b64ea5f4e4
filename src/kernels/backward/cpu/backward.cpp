// cpu_backward: gradients by key blocks that own their dK and dV; dQ takes in the blocks in ascending order.
//
// A work item is a KV head and a block of its keys. It passes over all query rows of the group, tile by tile,
// and holds dK and dV of its keys. The dQ of a tile of rows lies in the slot of its head: block b adds to it
// once block b - 1 has, so every sum has one order whatever the number of threads, and there is one dQ, not
// one for each thread. All blocks take the tiles in the same order, so they follow one another at a distance
// of one tile and seldom wait. Each sequence of a batch has its own lengths; the work goes sequence by
// sequence, longest first, and gives each the bits that it has alone.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>

#include "kernels/backward/cpu/config.hpp"
#include "kernels/backward/cpu/in_workspace.hpp"
#include "kernels/backward/cpu/launch.hpp"
#include "kernels/backward/cpu/pages.hpp"
#include "kernels/backward/cpu/tiles.hpp"
#include "kernels/forward/cpu/elements.hpp"
#include "kernels/forward/cpu/geometry.hpp"
#include "kernels/forward/cpu/kv_rows.hpp"
#include "kernels/forward/cpu/options.hpp"
#include "kernels/forward/cpu/work.hpp"
#include "runtime/workers.hpp"

namespace runmax::cpu {
namespace {

// Query rows of a tile: all of one query head.
struct RowTile {
  std::int64_t head = 0;   // within the group
  std::int64_t query = 0;  // the first
  std::int64_t rows = 0;
  std::int64_t at = 0;  // first row among the rows of the KV head, where each head fills whole register tiles
};

// How a KV head of a sequence is cut: tiles of query rows and blocks of keys.
class Cut {
 public:
  Cut(const Problem& p, const Sequence& sequence)
      : sequence_(sequence),
        group_(p.kv_heads == 0 ? 0 : p.query_heads / p.kv_heads),
        head_rows_(round_up(sequence.query_len, backward_tile.rows)),
        head_tiles_(ceil_div(sequence.query_len, backward_tile.block_q)),
        blocks_(ceil_div(sequence.kv_len, backward_tile.owned)) {}
  // Of the longest sequence.
  explicit Cut(const Problem& p) : Cut(p, {p.query_len, p.kv_len, 0, 0}) {}

  const Sequence& sequence() const { return sequence_; }
  std::int64_t group() const { return group_; }              // query heads
  std::int64_t rows() const { return group_ * head_rows_; }  // filled up
  std::int64_t tiles() const { return group_ * head_tiles_; }
  std::int64_t blocks() const { return blocks_; }
  std::int64_t pack_items() const { return tiles() + blocks_; }
  std::int64_t head_tiles() const { return head_tiles_; }  // of one query head

  RowTile tile(std::int64_t t) const {
    RowTile tile;
    tile.head = t / head_tiles_;
    tile.query = t % head_tiles_ * backward_tile.block_q;
    tile.rows = std::min(backward_tile.block_q, sequence_.query_len - tile.query);
    tile.at = tile.head * head_rows_ + tile.query;
    return tile;
  }

 private:
  Sequence sequence_;
  std::int64_t group_, head_rows_, head_tiles_, blocks_;
};

SequenceWork backward_work(const Problem& p, const Sequence& sequence, std::int64_t batch) {
  const Cut cut(p, sequence);
  SequenceWork w;
  w.sequence = sequence;
  w.batch = batch;
  w.row_tiles = cut.tiles();
  w.pack_items = cut.pack_items();
  w.compute_items = cut.blocks();
  return w;
}

// Items that compute, of the whole call, as far as the plan knows; a head without keys has rows to clear.
std::int64_t compute_items(const Problem& p) {
  const auto of_sequence = [&](const SequenceLengths& lengths) {
    const SequenceWork w = backward_work(p, {lengths.query_len, lengths.kv_len, 0, 0}, 0);
    return p.kv_heads * std::max<std::int64_t>(w.compute_items, w.row_tiles > 0 ? 1 : 0);
  };
  if (p.varlen.empty()) return p.batch * of_sequence({p.query_len, p.kv_len});
  std::int64_t items = 0;
  for (const SequenceLengths& lengths : p.varlen) items += of_sequence(lengths);
  return items;
}

// What a tile of rows asks of the blocks: the hull of the keys that its rows see.
struct TileNote {
  KeyRange keys;
  bool q_finite = true, dout_finite = true;
};

using Counter = std::atomic<std::int64_t>;

void wait_for(const Counter& counter, std::int64_t target) {
  for (std::int64_t done = counter.load(std::memory_order_acquire); done < target;
       done = counter.load(std::memory_order_acquire))
    counter.wait(done, std::memory_order_acquire);
}
void announce(Counter& counter, std::int64_t value) {
  counter.store(value, std::memory_order_release);
  counter.notify_all();
}
void count_one(Counter& counter) {
  counter.fetch_add(1, std::memory_order_acq_rel);
  counter.notify_all();
}

// Items of a job that are done.
struct Progress {
  Counter packed{0};
  Counter finished{0};  // blocks
};

// What a head needs while it is at work, packed once and shared by all of its blocks.
struct Slot {
  Counter* passed = nullptr;  // (blocks) tiles that the block has added to dQ
  float* q = nullptr;         // packed by pack_queries, times the power of two of the scale
  float* dout = nullptr;      // packed by pack_queries
  float* q_rows = nullptr;    // packed by pack_values, tile by tile
  float* dout_rows = nullptr;
  float* dq = nullptr;        // (rows, padded head_dim)
  float* lse = nullptr;       // (rows) in the units of q k
  float* delta = nullptr;     // (rows)
  KeyRange* keys = nullptr;   // (rows) that the row sees; none for a row whose LSE is -inf
  TileNote* notes = nullptr;  // (tiles)
  float* k = nullptr;         // packed by pack_keys
  float* v = nullptr;         // packed by pack_keys
  float* k_rows = nullptr;    // packed by pack_values, each block_kv keys by themselves
  bool* k_finite = nullptr;   // (runs of block_kv keys)
};

// One thread's memory.
struct Scratch {
  float* weights = nullptr;
  float* score_gradients = nullptr;
  float* dk = nullptr;  // (owned, padded head_dim)
  float* dv = nullptr;  // (owned, padded value_dim)
  TileKeys* visible = nullptr;
  // Where rows of 16-bit types become FP32 and those of pages come together, and gradients are scaled before
  // they become 16 bits.
  float* stage = nullptr;       // (owned, the larger dimension)
  float* stage_of_o = nullptr;  // (block_q, value_dim)
  // Of options, each a tile or a row.
  float* dropped = nullptr;          // P with what dropout drops left out, times the factor of the rest
  float* final_gradients = nullptr;  // dS before the softcap's derivative, for dBias
  float* cap_slope = nullptr;        // (block_kv)
  Options::Buffers gathered;
};

// A KV head of one sequence at work.
struct Head {
  Cut cut;
  Slot slot;
  std::int64_t job = 0;      // its place in the order of work
  std::int64_t batch = 0;    // the sequence
  std::int64_t kv_head = 0;  // within the sequence

  std::int64_t query_head(const RowTile& tile) const { return kv_head * cut.group() + tile.head; }
};

// What a problem's options need of a tile.
struct TileOptions {
  bool any = false;  // P and dS are not made where the products are
  bool drops = false, caps = false, hides = false, final_gradients = false;

  explicit TileOptions(const Problem& p, bool dbias = true)
      : any(Options::transforms(p) || p.dropout != 0),
        drops(p.dropout != 0),
        caps(p.softcap != 0),
        hides(Options::hides_keys(p)),
        final_gradients(p.bias && dbias && p.softcap != 0) {}
};

template <class T>
T* take(Regions& regions, std::int64_t count) {
  static_assert(alignof(T) <= region_bytes);
  return reinterpret_cast<T*>(
      regions.take(ceil_div(count * static_cast<std::int64_t>(sizeof(T)), sizeof(float))));
}

class Memory {
 public:
  Memory(const Problem& p, std::int32_t threads, void* data)
      : problem_(p), cut_(p), data_(static_cast<char*>(data)) {
    // Enough heads in flight that no thread waits for the last blocks of one.
    const std::int64_t jobs = p.batch * p.kv_heads;
    const std::int64_t of_one = std::max<std::int64_t>(compute_items(p) / std::max<std::int64_t>(jobs, 1), 1);
    const std::int64_t others = threads > 1 ? ceil_div(2 * std::int64_t{threads}, of_one) : 0;
    slots_ = std::min(jobs, 1 + others);
    Regions slot;
    lay_slot(slot);
    slot_bytes_ = slot.bytes();
    Regions scratch;
    lay_scratch(scratch);
    scratch_bytes_ = scratch.bytes();
    shared_at_ = slots_ * slot_bytes_ + std::max(threads, 1) * scratch_bytes_;
    Regions shared;
    lay_shared(shared);
    bytes_ = shared_at_ + shared.bytes();
  }

  // What the whole call shares.
  struct Shared {
    SequenceWork* list = nullptr;  // (sequences), unless they are uniform
    Progress* progress = nullptr;  // (jobs)
    double* sink_parts = nullptr;  // what each tile of rows gives to dSink, (batch, query heads, tiles)
    // Of paged keys: dK and dV of each batch element, (batch, kv_heads, kv_len, dim), and who uses which
    // page.
    float* dk = nullptr;
    float* dv = nullptr;
    PageUse* uses = nullptr;
  };

  std::int64_t slots() const { return slots_; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t sink_tiles() const { return cut_.head_tiles(); }  // of one query head
  std::int64_t blocks() const { return cut_.blocks(); }          // of one KV head, at most

  Slot slot(std::int64_t index) const {
    Regions regions(data_ + index * slot_bytes_);
    return lay_slot(regions);
  }
  Scratch scratch(std::int64_t worker) const {
    Regions regions(data_ + slots_ * slot_bytes_ + worker * scratch_bytes_);
    return lay_scratch(regions);
  }
  Shared shared() const {
    Regions regions(data_ + shared_at_);
    return lay_shared(regions);
  }

 private:
  Shared lay_shared(Regions& regions) const {
    const Problem& p = problem_;
    Shared shared;
    shared.list = take<SequenceWork>(regions, uniform(p) ? 0 : p.batch);
    shared.progress = take<Progress>(regions, p.batch * p.kv_heads);
    shared.sink_parts = take<double>(regions, p.sink ? p.batch * p.query_heads * cut_.head_tiles() : 0);
    if (p.page_size == 0) return shared;
    const std::int64_t keys = p.batch * p.kv_heads * p.kv_len;
    shared.dk = regions.take(keys * p.head_dim);
    shared.dv = regions.take(keys * p.value_dim);
    shared.uses = take<PageUse>(regions, most_page_uses(p));
    return shared;
  }

  Slot lay_slot(Regions& regions) const {
    const Problem& p = problem_;
    const std::int64_t head_dim = padded(p.head_dim), value_dim = padded(p.value_dim);
    Slot slot;
    slot.passed = take<Counter>(regions, cut_.blocks());
    slot.q = regions.take(cut_.rows() * p.head_dim);
    slot.dout = regions.take(cut_.rows() * p.value_dim);
    slot.q_rows = regions.take(cut_.rows() * head_dim);
    slot.dout_rows = regions.take(cut_.rows() * value_dim);
    slot.dq = regions.take(cut_.rows() * head_dim);
    slot.lse = regions.take(cut_.rows());
    slot.delta = regions.take(cut_.rows());
    slot.keys = take<KeyRange>(regions, cut_.rows());
    slot.notes = take<TileNote>(regions, cut_.tiles());
    slot.k = regions.take(padded(p.kv_len) * p.head_dim);
    slot.v = regions.take(padded(p.kv_len) * p.value_dim);
    slot.k_rows = regions.take(p.kv_len * head_dim);
    slot.k_finite = take<bool>(regions, ceil_div(p.kv_len, backward_tile.block_kv));
    return slot;
  }

  Scratch lay_scratch(Regions& regions) const {
    const Problem& p = problem_;
    Scratch scratch;
    scratch.weights = regions.take(backward_tile.block_q * pair_stride);
    scratch.score_gradients = regions.take(backward_tile.block_q * pair_stride);
    const std::int64_t keys = std::min(backward_tile.owned, round_up(p.kv_len, backward_tile.rows));
    scratch.dk = regions.take(keys * padded(p.head_dim));
    scratch.dv = regions.take(keys * padded(p.value_dim));
    scratch.visible = take<TileKeys>(regions, backward_tile.block_q);
    const bool narrow = p.dtype != DType::f32, staged = narrow || p.page_size > 0;
    scratch.stage = regions.take(staged ? backward_tile.owned * std::max(p.head_dim, p.value_dim) : 0);
    scratch.stage_of_o = regions.take(narrow ? backward_tile.block_q * p.value_dim : 0);
    const TileOptions options(p);
    const std::int64_t tile = backward_tile.block_q * pair_stride;
    scratch.dropped = regions.take(options.drops ? tile : 0);
    scratch.final_gradients = regions.take(options.final_gradients ? tile : 0);
    scratch.cap_slope = regions.take(options.caps ? pair_stride : 0);
    scratch.gathered.bias = regions.take(options.hides ? backward_tile.block_kv : 0);
    scratch.gathered.mask = take<std::uint8_t>(regions, options.hides ? backward_tile.block_kv : 0);
    return scratch;
  }

  const Problem& problem_;
  Cut cut_;  // of the longest sequence
  char* data_;
  std::int64_t slots_ = 0, slot_bytes_ = 0, scratch_bytes_ = 0, shared_at_ = 0, bytes_ = 0;
};

// Scores are held as q k times the power of two in the softmax scale; the rest of it, and log2(e), multiply
// score - LSE. A scale of 0 makes every score 0, in natural units.
ScaleParts scale_of(const Problem& problem) {
  ScaleParts parts = split_scale(effective_scale(problem));
  if (parts.natural_scale != 0) return parts;
  parts.natural_scale = 1;
  parts.exponent_scale = static_cast<float>(1.4426950408889634074);
  return parts;
}

class BackwardRun {
 public:
  BackwardRun(const Plan& plan, const Tensors& tensors, const Gradients& gradients, void* workspace)
      : problem_(plan.problem),
        tensors_(tensors),
        gradients_(gradients),
        memory_(problem_, plan.threads, workspace),
        shared_(memory_.shared()),
        uniform_(backward_work(problem_, {problem_.query_len, problem_.kv_len, 0, 0}, 0)),
        options_(problem_, tensors),
        tile_options_(problem_, gradients.dbias.data != nullptr),
        product_scale_(scale_of(problem_)),
        scale_(options_.weight_scale(product_scale_)),
        score_units_(options_.score_units(product_scale_)),
        softmax_scale_(effective_scale(problem_)),
        packing_(tile_functions()),
        functions_(backward_functions()),
        option_functions_(option_functions()),
        head_dim_(padded(problem_.head_dim)),
        value_dim_(padded(problem_.value_dim)),
        workers_(plan.threads) {}

  std::int64_t workspace_bytes() const { return memory_.bytes(); }

  // Where there is no row and no key: dBias, dSink and pages may have elements nevertheless.
  void clear() const {
    clear_bias_gradient();
    for (const TensorView* view : {&gradients_.dk, &gradients_.dv})
      for (std::int64_t row = 0; row < view->batch() * view->heads() * view->length(); ++row)
        clear_row(*view, row / view->length() / view->heads(), row / view->length() % view->heads(),
                  row % view->length());
    for (std::int64_t h = 0; h < gradients_.dsink.heads() && gradients_.dsink.data; ++h)
      head_data(gradients_.dsink, 0, h)[0] = 0.0f;
  }

  void run() {
    const WorkList list(
        problem_, uniform_, uniform(problem_) ? 0 : problem_.batch, tensors_.kv_lengths, shared_.list,
        [&](const Sequence& sequence, std::int64_t b) { return backward_work(problem_, sequence, b); });
    for (std::int64_t index = 0; index < memory_.slots(); ++index)
      for (std::int64_t b = 0; b < memory_.blocks(); ++b) new (memory_.slot(index).passed + b) Counter(0);
    for (std::int64_t job = 0; job < problem_.batch * problem_.kv_heads; ++job)
      new (shared_.progress + job) Progress;
    if (problem_.sink)
      std::fill_n(shared_.sink_parts, problem_.batch * problem_.query_heads * memory_.sink_tiles(), 0.0);
    clear_bias_gradient();
    clear_unused_keys(list);
    workers_.for_each(list.items(),
                      [&](std::int64_t worker, std::int64_t item) { advance(worker, list, list.job(item)); });
    store_sink_gradient();
    if (problem_.page_size > 0) store_pages(list);
  }

 private:
  // One item of a job, as soon as what it needs is there: items begin in order, so what is waited for is at
  // work.
  void advance(std::int64_t worker, const WorkList& list, const Job& job) const {
    const Head head{Cut(problem_, job.work->sequence), memory_.slot(job.index % memory_.slots()), job.index,
                    job.kv_head / problem_.kv_heads, job.kv_head % problem_.kv_heads};
    Progress& progress = shared_.progress[job.index];
    const Cut& cut = head.cut;
    if (job.item < cut.pack_items()) {
      wait_for_slot(list, job.index);
      if (job.item == 0)
        for (std::int64_t b = 0; b < cut.blocks(); ++b)
          head.slot.passed[b].store(0, std::memory_order_relaxed);
      if (job.item < cut.tiles())
        pack_rows(memory_.scratch(worker), head, job.item);
      else
        pack_keys(memory_.scratch(worker), head, job.item - cut.tiles());
      count_one(progress.packed);
      return;
    }
    wait_for(progress.packed, cut.pack_items());
    compute(worker, list, head, job.item - cut.pack_items());
    // Whoever waits for this head's dBias waits for those of all heads before it.
    if (heads_share_bias()) wait_for_job_before(list, head);
    count_one(progress.finished);
  }

  // Until the job that had the slot before is done.
  void wait_for_slot(const WorkList& list, std::int64_t job) const {
    std::int64_t before = job - memory_.slots();
    // One without items waited for nobody.
    while (before >= 0 && list.work_at(before).items() == 0) before -= memory_.slots();
    if (before < 0) return;
    const SequenceWork& w = list.work_at(before);
    if (w.compute_items > 0)
      wait_for(shared_.progress[before].finished, w.compute_items);
    else
      wait_for(shared_.progress[before].packed, w.pack_items);
  }

  // Until the job before this one in the order of work has added its dBias.
  void wait_for_job_before(const WorkList& list, const Head& head) const {
    std::int64_t before = head.job - 1;
    while (before >= 0 && list.work_at(before).compute_items == 0) --before;
    if (before >= 0) wait_for(shared_.progress[before].finished, list.work_at(before).compute_items);
  }

  // Where a batch element, and its rows and keys, lie in packed tensors: all in one element.
  std::int64_t tensor_batch(const Head& head) const { return problem_.varlen.empty() ? head.batch : 0; }

  // Rows [first, first + count) of K or V as FP32.
  StridedRows key_rows(const TensorView& view, const Head& head, std::int64_t first, std::int64_t count,
                       float* stage) const {
    const Sequence& sequence = head.cut.sequence();
    if (problem_.page_size == 0)
      return wide_rows(view, tensor_batch(head), head.kv_head, sequence.kv_start + first, count, stage);
    const KvRows rows(view, head.kv_head, tensors_.page_table, head.batch, problem_.page_size,
                      sequence.kv_len);
    rows.for_each_run(first, count, [&](std::int64_t done, std::int64_t some, const ElementRows& from) {
      element_functions().widen(from, some, view.dim(), stage + done * view.dim());
    });
    return {stage, view.dim(), 1};
  }
  StridedRows query_rows(const TensorView& view, const Head& head, const RowTile& tile, float* stage) const {
    return wide_rows(view, tensor_batch(head), head.query_head(tile),
                     head.cut.sequence().query_start + tile.query, tile.rows, stage);
  }

  // `count` rows as FP32: where they lie, or widened into `stage`.
  static StridedRows wide_rows(const TensorView& view, std::int64_t batch, std::int64_t head,
                               std::int64_t first, std::int64_t count, float* stage) {
    if (view.dtype == DType::f32) return head_rows(view, batch, head, first);
    element_functions().widen(element_rows(view, batch, head, first), count, view.dim(), stage);
    return {stage, view.dim(), 1};
  }

  // Packs rows of Q or dO both ways; true if all of them are finite.
  bool pack_both_ways(const StridedRows& rows, const RowTile& tile, std::int64_t dim, double factor,
                      float* queries, float* values) const {
    const std::int64_t whole = tile.rows / forward_tile.rows * forward_tile.rows;
    std::fill(queries + whole * dim, queries + packed_query_floats(tile.rows, dim), 0.0f);
    pack_queries(rows, 0, tile.rows, dim, factor, queries);
    packing_.pack_values(rows, tile.rows, dim, 0, {values, tile.rows});
    return functions_.all_finite(values, tile.rows * padded(dim));
  }

  void pack_rows(const Scratch& scratch, const Head& head, std::int64_t t) const {
    const Slot& slot = head.slot;
    const Sequence& sequence = head.cut.sequence();
    const RowTile tile = head.cut.tile(t);
    TileNote& note = *new (slot.notes + t) TileNote;
    note.q_finite = pack_both_ways(query_rows(tensors_.q, head, tile, scratch.stage), tile, problem_.head_dim,
                                   product_scale_.query_factor, slot.q + tile.at * problem_.head_dim,
                                   slot.q_rows + tile.at * head_dim_);
    const StridedRows dout = query_rows(gradients_.dout, head, tile, scratch.stage);
    note.dout_finite =
        pack_both_ways(dout, tile, problem_.value_dim, 1, slot.dout + tile.at * problem_.value_dim,
                       slot.dout_rows + tile.at * value_dim_);
    functions_.row_dots(dout, query_rows(tensors_.o, head, tile, scratch.stage_of_o), tile.rows,
                        problem_.value_dim, slot.delta + tile.at);
    const StridedRows lse = query_rows(tensors_.lse, head, tile, nullptr);
    if (problem_.sink) note_sink(head, tile, lse);
    note.keys = {sequence.kv_len, 0};
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const float natural = lse.data[r * lse.row_stride];
      KeyRange keys =
          visible_keys(problem_.causal, problem_.window, sequence.query_len, sequence.kv_len, tile.query + r);
      if (natural == -std::numeric_limits<float>::infinity()) keys.end = keys.begin;
      slot.lse[tile.at + r] = static_cast<float>(static_cast<double>(natural) / scale_.natural_scale);
      slot.keys[tile.at + r] = keys;
      if (keys.begin >= keys.end) continue;
      note.keys.begin = std::min(note.keys.begin, keys.begin);
      note.keys.end = std::max(note.keys.end, keys.end);
    }
    const std::int64_t filled = round_up(tile.rows, backward_tile.rows);
    std::fill(slot.lse + tile.at + tile.rows, slot.lse + tile.at + filled, 0.0f);
    std::fill(slot.delta + tile.at + tile.rows, slot.delta + tile.at + filled, 0.0f);
    std::fill(slot.dq + tile.at * head_dim_, slot.dq + (tile.at + filled) * head_dim_, 0.0f);
    // No block will come by.
    if (note.keys.begin >= note.keys.end) store_queries(scratch, head, tile);
  }

  void pack_keys(const Scratch& scratch, const Head& head, std::int64_t block) const {
    const Slot& slot = head.slot;
    const std::int64_t first = block * backward_tile.owned;
    const std::int64_t end = std::min(first + backward_tile.owned, head.cut.sequence().kv_len);
    packing_.pack_keys(key_rows(tensors_.v, head, first, end - first, scratch.stage), end - first,
                       problem_.value_dim, slot.v + first * problem_.value_dim);
    const StridedRows k = key_rows(tensors_.k, head, first, end - first, scratch.stage);
    packing_.pack_keys(k, end - first, problem_.head_dim, slot.k + first * problem_.head_dim);
    for (std::int64_t key = first; key < end; key += backward_tile.block_kv) {
      const std::int64_t count = std::min(backward_tile.block_kv, end - key);
      float* rows = slot.k_rows + key * head_dim_;
      packing_.pack_values({k.data + (key - first) * k.row_stride, k.row_stride, k.channel_stride}, count,
                           problem_.head_dim, 0, {rows, count});
      slot.k_finite[key / backward_tile.block_kv] = functions_.all_finite(rows, count * head_dim_);
    }
  }

  // All that the keys of a block give and get.
  void compute(std::int64_t worker, const WorkList& list, const Head& head, std::int64_t block) const {
    const Scratch scratch = memory_.scratch(worker);
    const Slot& slot = head.slot;
    const Cut& cut = head.cut;
    const std::int64_t first = block * backward_tile.owned;
    const std::int64_t end = std::min(first + backward_tile.owned, cut.sequence().kv_len);
    const std::int64_t filled = round_up(end - first, backward_tile.rows);
    std::fill(scratch.dk, scratch.dk + filled * head_dim_, 0.0f);
    std::fill(scratch.dv, scratch.dv + filled * value_dim_, 0.0f);
    // Under a causal mask every block sees the last rows: from there, no block waits for another to begin.
    for (std::int64_t n = 0; n < cut.tiles(); ++n) {
      const std::int64_t t = cut.tiles() - 1 - n;
      const TileNote& note = slot.notes[t];
      if (note.keys.begin >= end || note.keys.end <= first) continue;
      const RowTile tile = cut.tile(t);
      for (std::int64_t key = first; key < end; key += backward_tile.block_kv) {
        const std::int64_t count = std::min(backward_tile.block_kv, end - key);
        add_keys(scratch, head, tile, note, key, count, key - first);
        // The block before has keys of this tile's hull, and adds to its dQ first.
        if (key == first && note.keys.begin < first) wait_for(slot.passed[block - 1], n + 1);
        add_queries(scratch, slot, tile, key, count);
        if (!gradients_.dbias.data) continue;
        wait_for_bias(list, head, block);
        add_bias(scratch, head, tile, key, count);
      }
      if (note.keys.end <= end) store_queries(scratch, head, tile);
      announce(slot.passed[block], n + 1);
    }
    // Whoever waits for this block's dBias waits for those of all blocks before it.
    if (blocks_share_bias() && block > 0) wait_for(slot.passed[block - 1], cut.tiles());
    announce(slot.passed[block], cut.tiles());
    store_keys(gradients_.dk, shared_.dk, head, first, end - first, softmax_scale_, scratch.dk,
               scratch.stage);
    store_keys(gradients_.dv, shared_.dv, head, first, end - first, 1, scratch.dv, scratch.stage);
  }

  // Keys that a row of the tile sees among [key, key + count), relative to key.
  static TileKeys keys_of(const Slot& slot, const RowTile& tile, std::int64_t r, std::int64_t key,
                          std::int64_t count) {
    const KeyRange keys = slot.keys[tile.at + r];
    const std::int64_t low = std::clamp(keys.begin, key, key + count);
    const std::int64_t high = std::clamp(keys.end, low, key + count);
    return {static_cast<std::int32_t>(low - key), static_cast<std::int32_t>(high - key)};
  }

  // Those of each row, in the scratch; null if all see all.
  static const TileKeys* visible(const Scratch& scratch, const Slot& slot, const RowTile& tile,
                                 std::int64_t key, std::int64_t count) {
    bool all = true;
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const TileKeys keys = scratch.visible[r] = keys_of(slot, tile, r, key, count);
      all = all && keys.begin == 0 && keys.end == count;
    }
    return all ? nullptr : scratch.visible;
  }

  // P and dS of the tile and the keys, and what they add to dV and dK.
  void add_keys(const Scratch& scratch, const Head& head, const RowTile& tile, const TileNote& note,
                std::int64_t key, std::int64_t count, std::int64_t at) const {
    const Slot& slot = head.slot;
    PairTile pairs;
    pairs.q = slot.q + tile.at * problem_.head_dim;
    pairs.dout = slot.dout + tile.at * problem_.value_dim;
    pairs.k = slot.k + key * problem_.head_dim;
    pairs.v = slot.v + key * problem_.value_dim;
    pairs.head_dim = problem_.head_dim;
    pairs.value_dim = problem_.value_dim;
    pairs.rows = tile.rows;
    pairs.keys = count;
    pairs.visible = visible(scratch, slot, tile, key, count);
    pairs.lse = slot.lse + tile.at;
    pairs.delta = slot.delta + tile.at;
    pairs.exponent_scale = scale_.exponent_scale;
    pairs.weights = scratch.weights;
    pairs.score_gradients = scratch.score_gradients;
    if (tile_options_.any) {
      functions_.products(pairs);
      apply_options(scratch, head, tile, key);
    } else {
      functions_.pairs(pairs);
    }

    KeyTile keys;
    keys.rows = tile.rows;
    keys.count = count;
    keys.visible = pairs.visible;
    keys.hidden_by = tile_options_.hides ? scratch.weights : nullptr;
    keys.pairs = tile_options_.drops ? scratch.dropped : scratch.weights;
    keys.queries = {slot.dout_rows + tile.at * value_dim_, tile.rows, value_dim_, note.dout_finite};
    keys.out = scratch.dv + at * value_dim_;
    functions_.add_to_keys(keys);
    keys.pairs = scratch.score_gradients;
    keys.queries = {slot.q_rows + tile.at * head_dim_, tile.rows, head_dim_, note.q_finite};
    keys.out = scratch.dk + at * head_dim_;
    functions_.add_to_keys(keys);
  }

  static RowAddress address(const Head& head, const RowTile& tile, std::int64_t r) {
    return {head.batch, head.query_head(tile), tile.query + r};
  }

  // From Q K^T and dO V^T of a tile to P and dS, row by row. `scratch.visible` holds each row's keys.
  void apply_options(const Scratch& scratch, const Head& head, const RowTile& tile,
                     std::int64_t first_key) const {
    const Slot& slot = head.slot;
    const Sequence& sequence = head.cut.sequence();
    const std::int64_t offset = diagonal_offset(problem_.causal, sequence.query_len, sequence.kv_len);
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const RowAddress at = address(head, tile, r);
      const TileKeys keys = scratch.visible[r];
      float* weights = scratch.weights + r * pair_stride;
      if (options_.transforms() && keys.begin < keys.end) {
        OptionRow row = options_.row(at, offset, first_key, keys, scratch.gathered);
        row.scores = weights;
        row.cap_slope = tile_options_.caps ? scratch.cap_slope : nullptr;
        option_functions_.transform(score_units_, row);
      }
      functions_.weigh_row(weights, keys, slot.lse[tile.at + r], scale_.exponent_scale);
      GradientRow gradient;
      gradient.keys = keys;
      gradient.delta = slot.delta[tile.at + r];
      gradient.weights = weights;
      gradient.score_gradients = scratch.score_gradients + r * pair_stride;
      if (tile_options_.drops) {
        gradient.dropped = scratch.dropped + r * pair_stride;
        gradient.kept_factor = static_cast<float>(1 / (1 - problem_.dropout));
        std::copy(weights, weights + backward_tile.block_kv, gradient.dropped);
        option_functions_.drop(gradient.dropped, keys, options_.dropout_key(at),
                               options_.dropout_threshold_word(), at.query, first_key);
      }
      if (tile_options_.caps) gradient.cap_slope = scratch.cap_slope;
      if (tile_options_.final_gradients) gradient.final_gradients = scratch.final_gradients + r * pair_stride;
      functions_.gradient_row(gradient);
    }
  }

  void add_queries(const Scratch& scratch, const Slot& slot, const RowTile& tile, std::int64_t key,
                   std::int64_t count) const {
    QueryTile queries;
    queries.score_gradients = scratch.score_gradients;
    queries.keys = {slot.k_rows + key * head_dim_, count, head_dim_,
                    slot.k_finite[key / backward_tile.block_kv]};
    queries.rows = tile.rows;
    queries.count = count;
    queries.visible = visible(scratch, slot, tile, key, count);
    queries.hidden_by = tile_options_.hides ? scratch.weights : nullptr;
    queries.out = slot.dq + tile.at * head_dim_;
    functions_.add_to_queries(queries);
  }

  // Elements of dBias take in more than one query head of the batch.
  bool heads_share_bias() const {
    if (!gradients_.dbias.data) return false;
    const std::array<std::int64_t, 4>& shape = gradients_.dbias.shape;
    return (shape[0] == 1 && problem_.batch > 1) || (shape[1] == 1 && problem_.query_heads > 1);
  }

  // Elements of dBias take in more than one block of keys, and more than one tile of rows.
  bool blocks_share_bias() const {
    if (!gradients_.dbias.data) return false;
    const std::array<std::int64_t, 4>& shape = gradients_.dbias.shape;
    return shape[3] == 1 && (shape[2] == 1 || heads_share_bias());
  }

  // Waits until the sums of dBias that this block shares with others are its turn, so that each has one
  // order. Heads that share elements come one after the other, whole. Blocks of a head share elements only
  // where a row has one for all keys: tile after tile as they do for dQ, unless tiles share them too.
  void wait_for_bias(const WorkList& list, const Head& head, std::int64_t block) const {
    if (heads_share_bias()) wait_for_job_before(list, head);
    if (blocks_share_bias() && block > 0) wait_for(head.slot.passed[block - 1], head.cut.tiles());
  }

  // dBias of the pairs of a tile: summed over what shares an element, rows of a tile first.
  void add_bias(const Scratch& scratch, const Head& of, const RowTile& tile, std::int64_t key,
                std::int64_t count) const {
    const TensorView& view = gradients_.dbias;
    const RowAddress at = address(of, tile, 0);
    const auto place = [&](std::size_t axis, std::int64_t index) {
      return view.shape[axis] == 1 ? 0 : index * view.strides[axis];
    };
    float* head = static_cast<float*>(view.data) + place(0, at.batch) + place(1, at.head);
    const float* from = tile_options_.final_gradients ? scratch.final_gradients : scratch.score_gradients;
    const bool rows_share = view.shape[2] == 1, keys_share = view.shape[3] == 1;
    double sums[backward_tile.block_kv] = {};
    const auto add_row = [&](float* to, TileKeys keys, auto value) {
      if (keys_share) {
        double sum = 0;
        for (std::int64_t j = keys.begin; j < keys.end; ++j) sum += static_cast<double>(value(j));
        *to = static_cast<float>(static_cast<double>(*to) + sum);
        return;
      }
      for (std::int64_t j = keys.begin; j < keys.end; ++j) {
        float& element = to[(key + j) * view.strides[3]];
        element = static_cast<float>(static_cast<double>(element) + static_cast<double>(value(j)));
      }
    };
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const float* row = from + r * pair_stride;
      const TileKeys keys = keys_of(of.slot, tile, r, key, count);
      if (rows_share) {
        for (std::int64_t j = keys.begin; j < keys.end; ++j) sums[j] += static_cast<double>(row[j]);
      } else if (keys.begin < keys.end) {
        add_row(head + place(2, tile.query + r), keys, [&](std::int64_t j) { return row[j]; });
      }
    }
    if (rows_share)
      add_row(head, {0, static_cast<std::int32_t>(count)}, [&](std::int64_t j) { return sums[j]; });
  }

  void clear_bias_gradient() const {
    const TensorView& view = gradients_.dbias;
    if (!view.data) return;
    workers_.for_each(view.shape[0] * view.shape[1] * view.shape[2], [&](std::int64_t, std::int64_t row) {
      const std::int64_t i = row % view.shape[2], h = row / view.shape[2] % view.shape[1],
                         b = row / view.shape[2] / view.shape[1];
      float* to = head_data(view, b, h) + i * view.strides[2];
      for (std::int64_t j = 0; j < view.shape[3]; ++j) to[j * view.strides[3]] = 0.0f;
    });
  }

  // The sink is a score without a value: its dP is 0, and its dS is - P delta.
  void note_sink(const Head& head, const RowTile& tile, const StridedRows& lse) const {
    const RowAddress at = address(head, tile, 0);
    const double sink = static_cast<const float*>(tensors_.sink.data)[at.head * tensors_.sink.strides[1]];
    double sum = 0;
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const double natural = lse.data[r * lse.row_stride];
      if (natural == -std::numeric_limits<double>::infinity()) continue;
      sum -= std::exp(std::min(sink - natural, 0.0)) * static_cast<double>(head.slot.delta[tile.at + r]);
    }
    shared_.sink_parts[(at.batch * problem_.query_heads + at.head) * memory_.sink_tiles() +
                       tile.query / backward_tile.block_q] = sum;
  }

  void store_sink_gradient() const {
    const TensorView& view = gradients_.dsink;
    if (!view.data) return;
    for (std::int64_t h = 0; h < problem_.query_heads; ++h) {
      double sum = 0;
      for (std::int64_t b = 0; b < problem_.batch; ++b)
        for (std::int64_t t = 0; t < memory_.sink_tiles(); ++t)
          sum += shared_.sink_parts[(b * problem_.query_heads + h) * memory_.sink_tiles() + t];
      static_cast<float*>(view.data)[h * view.strides[1]] = static_cast<float>(sum);
    }
  }

  void store_queries(const Scratch& scratch, const Head& head, const RowTile& tile) const {
    store(gradients_.dq, tensor_batch(head), head.query_head(tile),
          head.cut.sequence().query_start + tile.query, tile.rows, problem_.head_dim, softmax_scale_,
          head.slot.dq + tile.at * head_dim_, scratch.stage);
  }

  // Rows of dK or dV: where the caller wants them, or side by side in `of_elements` until all users of their
  // pages are done.
  void store_keys(const TensorView& view, float* of_elements, const Head& head, std::int64_t first,
                  std::int64_t rows, double factor, const float* from, float* stage) const {
    if (problem_.page_size == 0) {
      store(view, tensor_batch(head), head.kv_head, head.cut.sequence().kv_start + first, rows, view.dim(),
            factor, from, stage);
      return;
    }
    float* to = of_elements + PageUses::element_key(problem_, head.batch, head.kv_head, first) * view.dim();
    for (std::int64_t r = 0; r < rows; ++r, from += padded(view.dim()), to += view.dim())
      for (std::int64_t c = 0; c < view.dim(); ++c)
        to[c] = static_cast<float>(factor * static_cast<double>(from[c]));
  }

  // Keys behind the length that a batch element uses get nothing.
  void clear_unused_keys(const WorkList& list) const {
    if (!problem_.seqused || problem_.page_size > 0) return;
    workers_.for_each(problem_.batch * problem_.kv_heads, [&](std::int64_t, std::int64_t job) {
      const SequenceWork& w = list.work_at(job);
      const std::int64_t batch = problem_.varlen.empty() ? w.batch : 0;
      const std::int64_t end = w.sequence.kv_start + planned_lengths(problem_, w.batch).kv_len;
      for (const TensorView* view : {&gradients_.dk, &gradients_.dv})
        for (std::int64_t j = w.sequence.kv_start + w.sequence.kv_len; j < end; ++j)
          clear_row(*view, batch, job % problem_.kv_heads, j);
    });
  }
  static void clear_row(const TensorView& view, std::int64_t batch, std::int64_t head, std::int64_t row) {
    const float zero = 0;
    const std::int64_t at = batch * view.strides[0] + head * view.strides[1] + row * view.strides[2];
    for (std::int64_t c = 0; c < view.dim(); ++c)
      element_functions().narrow(&zero, 1, view.dtype,
                                 element_at(view.data, view.dtype, at + c * view.strides[3]), 1);
  }

  // dK and dV of every page: 0 where nobody uses it.
  void store_pages(const WorkList& list) const {
    const PageUses uses(problem_, tensors_.page_table, list, shared_.uses);
    workers_.for_each(gradients_.dk.batch() * problem_.kv_heads, [&](std::int64_t worker, std::int64_t item) {
      const std::int64_t page = item / problem_.kv_heads, kv_head = item % problem_.kv_heads;
      float* const row = memory_.scratch(worker).stage;
      for (const auto& [view, of_elements] :
           {std::pair{&gradients_.dk, shared_.dk}, std::pair{&gradients_.dv, shared_.dv}})
        for (std::int64_t r = 0; r < problem_.page_size; ++r) {
          uses.sum_row(uses.of(page), of_elements, kv_head, r, view->dim(), row);
          const std::int64_t at = page * view->strides[0] + kv_head * view->strides[1] + r * view->strides[2];
          element_functions().narrow(row, view->dim(), view->dtype, element_at(view->data, view->dtype, at),
                                     view->strides[3]);
        }
    });
  }

  // Rows of a gradient, times `factor`, to where the caller wants them. `stage` holds a row.
  static void store(const TensorView& view, std::int64_t batch, std::int64_t head, std::int64_t first,
                    std::int64_t rows, std::int64_t dim, double factor, const float* from, float* stage) {
    const std::int64_t at = batch * view.strides[0] + head * view.strides[1] + first * view.strides[2];
    for (std::int64_t r = 0; r < rows; ++r, from += padded(dim)) {
      void* row = element_at(view.data, view.dtype, at + r * view.strides[2]);
      float* to = view.dtype == DType::f32 ? static_cast<float*>(row) : stage;
      const std::int64_t step = view.dtype == DType::f32 ? view.strides[3] : 1;
      for (std::int64_t c = 0; c < dim; ++c)
        to[c * step] = static_cast<float>(factor * static_cast<double>(from[c]));
      if (view.dtype != DType::f32) element_functions().narrow(stage, dim, view.dtype, row, view.strides[3]);
    }
  }

  const Problem& problem_;
  const Tensors& tensors_;
  const Gradients& gradients_;
  Memory memory_;
  Memory::Shared shared_;
  SequenceWork uniform_;
  Options options_;
  TileOptions tile_options_;
  ScaleParts product_scale_;  // of the scores as the product gives them
  ScaleParts scale_;          // of the scores as options leave them
  ScoreUnits score_units_;
  double softmax_scale_;
  const TileFunctions& packing_;
  const BackwardFunctions& functions_;
  const OptionFunctions& option_functions_;
  std::int64_t head_dim_, value_dim_;
  Workers workers_;
};

}  // namespace

std::optional<std::string> backward_refuses(const Problem& p, const DeviceFacts& facts,
                                            const PlanOptions& options) {
  if (options.num_splits > 1)
    return "num_splits: a row's dQ takes in all keys in one order, got " + std::to_string(options.num_splits);
  const std::int32_t threads = options.threads > 0 ? options.threads : facts.threads;
  // More than the packed copies of any row or key.
  constexpr double copies = 12;
  if (auto reason = too_large(p, copies, threads)) return reason;
  const double keys = static_cast<double>(p.batch) * static_cast<double>(p.kv_heads) *
                      static_cast<double>(p.kv_len + backward_tile.panel);
  const double width = static_cast<double>(p.head_dim) + static_cast<double>(p.value_dim) + 64;
  if (copies * width * keys >= 0x1p60) return "shape: the workspace would exceed 2^62 bytes";
  return std::nullopt;
}

void fill_backward_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  plan.block_q = backward_tile.block_q;
  plan.block_kv = backward_tile.block_kv;
  plan.num_splits = 1;
  plan.work_items = compute_items(plan.problem);
  plan.threads = threads_for(plan.work_items, facts, options);
  if (plan.work_items == 0) return;
  plan.workspace_bytes = static_cast<std::size_t>(Memory(plan.problem, plan.threads, nullptr).bytes());
}

Status run_backward(const Plan& plan, const Tensors& tensors, const Gradients& gradients, Workspace workspace,
                    Stream) {
  return run_backward_in_workspace<BackwardRun>(plan, tensors, gradients, workspace);
}

}  // namespace runmax::cpu
