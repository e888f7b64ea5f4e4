// cpu_backward: gradients by key blocks that own their dK and dV; dQ takes in the blocks in ascending order.
//
// A work item is a KV head and a block of its keys. It passes over all query rows of the group, tile by tile,
// and holds dK and dV of its keys. The dQ of a tile of rows lies in the slot of its head: block b adds to it
// once block b - 1 has, so every sum has one order whatever the number of threads, and there is one dQ, not
// one for each thread. All blocks take the tiles in the same order, so they follow one another at a distance
// of one tile and seldom wait.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>

#include "kernels/backward/cpu/config.hpp"
#include "kernels/backward/cpu/launch.hpp"
#include "kernels/backward/cpu/tiles.hpp"
#include "kernels/forward/cpu/elements.hpp"
#include "kernels/forward/cpu/geometry.hpp"
#include "kernels/forward/cpu/options.hpp"
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

// How a problem is cut: tiles of query rows and blocks of keys of one KV head.
class Cut {
 public:
  explicit Cut(const Problem& p)
      : problem_(p),
        group_(p.kv_heads == 0 ? 0 : p.query_heads / p.kv_heads),
        head_rows_(round_up(p.query_len, backward_tile.rows)),
        head_tiles_(ceil_div(p.query_len, backward_tile.block_q)),
        blocks_(ceil_div(p.kv_len, backward_tile.owned)),
        kv_heads_(p.batch * p.kv_heads) {}

  const Problem& problem() const { return problem_; }
  std::int64_t kv_heads() const { return kv_heads_; }            // of the whole batch
  std::int64_t rows() const { return group_ * head_rows_; }      // of one KV head, filled up
  std::int64_t tiles() const { return group_ * head_tiles_; }    // of one KV head
  std::int64_t blocks() const { return blocks_; }                // of one KV head
  std::int64_t pack_items() const { return tiles() + blocks_; }  // of one KV head
  std::int64_t head_tiles() const { return head_tiles_; }        // of one query head
  std::int64_t items() const { return pack_items() + blocks_; }  // of one KV head
  std::int64_t batch(std::int64_t kv_head) const { return kv_head / problem_.kv_heads; }
  std::int64_t query_head(std::int64_t kv_head, const RowTile& tile) const {
    return kv_head % problem_.kv_heads * group_ + tile.head;
  }

  RowTile tile(std::int64_t t) const {
    RowTile tile;
    tile.head = t / head_tiles_;
    tile.query = t % head_tiles_ * backward_tile.block_q;
    tile.rows = std::min(backward_tile.block_q, problem_.query_len - tile.query);
    tile.at = tile.head * head_rows_ + tile.query;
    return tile;
  }

 private:
  const Problem& problem_;
  std::int64_t group_, head_rows_, head_tiles_, blocks_, kv_heads_;
};

// What a tile of rows asks of the blocks: the hull of the keys that its rows see.
struct TileNote {
  KeyRange keys;
  bool q_finite = true, dout_finite = true;
};

using Counter = std::atomic<std::int64_t>;

// Counters only grow, from head to head of a slot.
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

// What a head needs while it is at work, packed once and shared by all of its blocks.
struct Slot {
  Counter* packed = nullptr;    // items packed
  Counter* finished = nullptr;  // blocks finished
  Counter* passed = nullptr;    // (blocks) tiles that the block has added to dQ
  float* q = nullptr;           // packed by pack_queries, times the power of two of the scale
  float* dout = nullptr;        // packed by pack_queries
  float* q_rows = nullptr;      // packed by pack_values, tile by tile
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
  // Where rows of 16-bit types become FP32, and gradients are scaled before they become 16 bits.
  float* stage = nullptr;       // (owned, the larger dimension)
  float* stage_of_o = nullptr;  // (block_q, value_dim)
  // Of options, each a tile or a row.
  float* dropped = nullptr;          // P with what dropout drops left out, times the factor of the rest
  float* final_gradients = nullptr;  // dS before the softcap's derivative, for dBias
  float* cap_slope = nullptr;        // (block_kv)
  Options::Buffers gathered;
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
  Memory(const Cut& cut, std::int32_t threads, void* data) : cut_(cut), data_(static_cast<char*>(data)) {
    // Enough heads in flight that no thread waits for the last blocks of one.
    const std::int64_t others =
        threads > 1 ? ceil_div(2 * std::int64_t{threads}, std::max<std::int64_t>(cut.blocks(), 1)) : 0;
    slots_ = std::min(cut.kv_heads(), 1 + others);
    Regions slot;
    lay_slot(slot);
    slot_bytes_ = slot.bytes();
    Regions scratch;
    lay_scratch(scratch);
    scratch_bytes_ = scratch.bytes();
    const Problem& p = cut.problem();
    sink_parts_ = p.sink ? p.batch * p.query_heads * cut.head_tiles() : 0;
    sink_at_ = slots_ * slot_bytes_ + std::max(threads, 1) * scratch_bytes_;
    bytes_ = sink_at_ + round_up(sink_parts_ * static_cast<std::int64_t>(sizeof(double)), region_bytes);
  }

  std::int64_t slots() const { return slots_; }
  std::int64_t bytes() const { return bytes_; }

  Slot slot(std::int64_t index) const {
    Regions regions(data_ + index * slot_bytes_);
    return lay_slot(regions);
  }
  // What each tile of rows gives to dSink, (batch, query heads, tiles of a head).
  double* sink_parts() const { return reinterpret_cast<double*>(data_ + sink_at_); }
  Scratch scratch(std::int64_t worker) const {
    Regions regions(data_ + slots_ * slot_bytes_ + worker * scratch_bytes_);
    return lay_scratch(regions);
  }

 private:
  Slot lay_slot(Regions& regions) const {
    const Problem& p = cut_.problem();
    const std::int64_t head_dim = padded(p.head_dim), value_dim = padded(p.value_dim);
    Slot slot;
    slot.packed = take<Counter>(regions, 1);
    slot.finished = take<Counter>(regions, 1);
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
    const Problem& p = cut_.problem();
    Scratch scratch;
    scratch.weights = regions.take(backward_tile.block_q * pair_stride);
    scratch.score_gradients = regions.take(backward_tile.block_q * pair_stride);
    const std::int64_t keys = std::min(backward_tile.owned, round_up(p.kv_len, backward_tile.rows));
    scratch.dk = regions.take(keys * padded(p.head_dim));
    scratch.dv = regions.take(keys * padded(p.value_dim));
    scratch.visible = take<TileKeys>(regions, backward_tile.block_q);
    const bool narrow = p.dtype != DType::f32;
    scratch.stage = regions.take(narrow ? backward_tile.owned * std::max(p.head_dim, p.value_dim) : 0);
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

  const Cut& cut_;
  char* data_;
  std::int64_t slots_ = 0, slot_bytes_ = 0, scratch_bytes_ = 0, sink_parts_ = 0, sink_at_ = 0, bytes_ = 0;
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
        cut_(problem_),
        memory_(cut_, plan.threads, workspace),
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

  // Where there is no row or no key: dBias and dSink may have elements nevertheless.
  void clear_shared_gradients() const {
    clear_bias_gradient();
    for (std::int64_t h = 0; h < gradients_.dsink.heads() && gradients_.dsink.data; ++h)
      head_data(gradients_.dsink, 0, h)[0] = 0.0f;
  }

  void run() {
    for (std::int64_t index = 0; index < memory_.slots(); ++index) {
      const Slot slot = memory_.slot(index);
      new (slot.packed) Counter(0);
      new (slot.finished) Counter(0);
      for (std::int64_t b = 0; b < cut_.blocks(); ++b) new (slot.passed + b) Counter(0);
    }
    clear_bias_gradient();
    const std::int64_t items = cut_.items();
    workers_.for_each(cut_.kv_heads() * items, [&](std::int64_t worker, std::int64_t item) {
      advance(worker, item / items, item % items);
    });
    store_sink_gradient();
  }

 private:
  // One item of a head, as soon as what it needs is there: items begin in order, so what is waited for is at
  // work.
  void advance(std::int64_t worker, std::int64_t kv_head, std::int64_t item) const {
    const Slot slot = memory_.slot(kv_head % memory_.slots());
    const std::int64_t before = kv_head / memory_.slots();  // heads that had the slot
    if (item < cut_.pack_items()) {
      wait_for(*slot.finished, before * cut_.blocks());
      if (item < cut_.tiles())
        pack_rows(memory_.scratch(worker), kv_head, slot, item);
      else
        pack_keys(memory_.scratch(worker), kv_head, slot, item - cut_.tiles());
      count_one(*slot.packed);
      return;
    }
    wait_for(*slot.packed, (before + 1) * cut_.pack_items());
    compute(worker, kv_head, slot, before * cut_.tiles(), item - cut_.pack_items());
    count_one(*slot.finished);
  }

  // `count` rows as FP32: where they lie, or widened into `stage`.
  static StridedRows wide_rows(const TensorView& view, std::int64_t batch, std::int64_t head,
                               std::int64_t first, std::int64_t count, float* stage) {
    if (view.dtype == DType::f32) return head_rows(view, batch, head, first);
    element_functions().widen(element_rows(view, batch, head, first), count, view.dim(), stage);
    return {stage, view.dim(), 1};
  }
  StridedRows key_rows(const TensorView& view, std::int64_t kv_head, std::int64_t key, std::int64_t count,
                       float* stage) const {
    return wide_rows(view, cut_.batch(kv_head), kv_head % problem_.kv_heads, key, count, stage);
  }
  StridedRows query_rows(const TensorView& view, std::int64_t kv_head, const RowTile& tile,
                         float* stage) const {
    return wide_rows(view, cut_.batch(kv_head), cut_.query_head(kv_head, tile), tile.query, tile.rows, stage);
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

  void pack_rows(const Scratch& scratch, std::int64_t kv_head, const Slot& slot, std::int64_t t) const {
    const RowTile tile = cut_.tile(t);
    TileNote& note = *new (slot.notes + t) TileNote;
    note.q_finite = pack_both_ways(query_rows(tensors_.q, kv_head, tile, scratch.stage), tile,
                                   problem_.head_dim, product_scale_.query_factor,
                                   slot.q + tile.at * problem_.head_dim, slot.q_rows + tile.at * head_dim_);
    const StridedRows dout = query_rows(gradients_.dout, kv_head, tile, scratch.stage);
    note.dout_finite =
        pack_both_ways(dout, tile, problem_.value_dim, 1, slot.dout + tile.at * problem_.value_dim,
                       slot.dout_rows + tile.at * value_dim_);
    functions_.row_dots(dout, query_rows(tensors_.o, kv_head, tile, scratch.stage_of_o), tile.rows,
                        problem_.value_dim, slot.delta + tile.at);
    const StridedRows lse = query_rows(tensors_.lse, kv_head, tile, nullptr);
    if (problem_.sink) note_sink(kv_head, slot, tile, lse);
    note.keys = {problem_.kv_len, 0};
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const float natural = lse.data[r * lse.row_stride];
      KeyRange keys =
          visible_keys(problem_.causal, problem_.window, problem_.query_len, problem_.kv_len, tile.query + r);
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
    if (note.keys.begin >= note.keys.end) store_queries(scratch, kv_head, slot, tile);
  }

  void pack_keys(const Scratch& scratch, std::int64_t kv_head, const Slot& slot, std::int64_t block) const {
    const std::int64_t first = block * backward_tile.owned;
    const std::int64_t end = std::min(first + backward_tile.owned, problem_.kv_len);
    packing_.pack_keys(key_rows(tensors_.v, kv_head, first, end - first, scratch.stage), end - first,
                       problem_.value_dim, slot.v + first * problem_.value_dim);
    const StridedRows k = key_rows(tensors_.k, kv_head, first, end - first, scratch.stage);
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
  void compute(std::int64_t worker, std::int64_t kv_head, const Slot& slot, std::int64_t passed_before,
               std::int64_t block) const {
    const Scratch scratch = memory_.scratch(worker);
    const std::int64_t first = block * backward_tile.owned;
    const std::int64_t end = std::min(first + backward_tile.owned, problem_.kv_len);
    const std::int64_t filled = round_up(end - first, backward_tile.rows);
    std::fill(scratch.dk, scratch.dk + filled * head_dim_, 0.0f);
    std::fill(scratch.dv, scratch.dv + filled * value_dim_, 0.0f);
    // Under a causal mask every block sees the last rows: from there, no block waits for another to begin.
    for (std::int64_t n = 0; n < cut_.tiles(); ++n) {
      const std::int64_t t = cut_.tiles() - 1 - n;
      const TileNote& note = slot.notes[t];
      if (note.keys.begin >= end || note.keys.end <= first) continue;
      const RowTile tile = cut_.tile(t);
      for (std::int64_t key = first; key < end; key += backward_tile.block_kv) {
        const std::int64_t count = std::min(backward_tile.block_kv, end - key);
        add_keys(scratch, kv_head, slot, tile, note, key, count, key - first);
        // The block before has keys of this tile's hull, and adds to its dQ first.
        if (key == first && note.keys.begin < first) wait_for(slot.passed[block - 1], passed_before + n + 1);
        add_queries(scratch, slot, tile, key, count);
        if (!gradients_.dbias.data) continue;
        wait_for_bias(kv_head, slot, passed_before, block);
        add_bias(scratch, kv_head, slot, tile, key, count);
      }
      if (note.keys.end <= end) store_queries(scratch, kv_head, slot, tile);
      announce(slot.passed[block], passed_before + n + 1);
    }
    announce(slot.passed[block], passed_before + cut_.tiles());
    store(gradients_.dk, cut_.batch(kv_head), kv_head % problem_.kv_heads, first, end - first,
          problem_.head_dim, softmax_scale_, scratch.dk, scratch.stage);
    store(gradients_.dv, cut_.batch(kv_head), kv_head % problem_.kv_heads, first, end - first,
          problem_.value_dim, 1, scratch.dv, scratch.stage);
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
  void add_keys(const Scratch& scratch, std::int64_t kv_head, const Slot& slot, const RowTile& tile,
                const TileNote& note, std::int64_t key, std::int64_t count, std::int64_t at) const {
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
      apply_options(scratch, kv_head, slot, tile, key);
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

  RowAddress address(std::int64_t kv_head, const RowTile& tile, std::int64_t r) const {
    return {cut_.batch(kv_head), cut_.query_head(kv_head, tile), tile.query + r};
  }

  // From Q K^T and dO V^T of a tile to P and dS, row by row. `scratch.visible` holds each row's keys.
  void apply_options(const Scratch& scratch, std::int64_t kv_head, const Slot& slot, const RowTile& tile,
                     std::int64_t first_key) const {
    const std::int64_t offset = diagonal_offset(problem_.causal, problem_.query_len, problem_.kv_len);
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const RowAddress at = address(kv_head, tile, r);
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

  // Waits until the sums of dBias that this block shares with others are its turn, so that each has one
  // order. Heads that share elements come one after the other, whole. Blocks of a head share elements only
  // where a row has one for all keys: tile after tile as they do for dQ, unless tiles share them too.
  void wait_for_bias(std::int64_t kv_head, const Slot& slot, std::int64_t passed_before,
                     std::int64_t block) const {
    const std::array<std::int64_t, 4>& shape = gradients_.dbias.shape;
    const bool heads_share =
        (shape[0] == 1 && problem_.batch > 1) || (shape[1] == 1 && problem_.query_heads > 1);
    if (heads_share && kv_head > 0) {
      const std::int64_t before = kv_head - 1;
      wait_for(*memory_.slot(before % memory_.slots()).finished,
               (before / memory_.slots() + 1) * cut_.blocks());
    }
    const bool tiles_share = shape[2] == 1 || heads_share;
    if (shape[3] == 1 && tiles_share && block > 0)
      wait_for(slot.passed[block - 1], passed_before + cut_.tiles());
  }

  // dBias of the pairs of a tile: summed over what shares an element, rows of a tile first.
  void add_bias(const Scratch& scratch, std::int64_t kv_head, const Slot& slot, const RowTile& tile,
                std::int64_t key, std::int64_t count) const {
    const TensorView& view = gradients_.dbias;
    const RowAddress at = address(kv_head, tile, 0);
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
      const TileKeys keys = keys_of(slot, tile, r, key, count);
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
  void note_sink(std::int64_t kv_head, const Slot& slot, const RowTile& tile, const StridedRows& lse) const {
    const RowAddress at = address(kv_head, tile, 0);
    const double sink = static_cast<const float*>(tensors_.sink.data)[at.head * tensors_.sink.strides[1]];
    double sum = 0;
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      const double natural = lse.data[r * lse.row_stride];
      if (natural == -std::numeric_limits<double>::infinity()) continue;
      sum -= std::exp(std::min(sink - natural, 0.0)) * static_cast<double>(slot.delta[tile.at + r]);
    }
    memory_.sink_parts()[(at.batch * problem_.query_heads + at.head) * cut_.head_tiles() +
                         tile.query / backward_tile.block_q] = sum;
  }

  void store_sink_gradient() const {
    const TensorView& view = gradients_.dsink;
    if (!view.data) return;
    for (std::int64_t h = 0; h < problem_.query_heads; ++h) {
      double sum = 0;
      for (std::int64_t b = 0; b < problem_.batch; ++b)
        for (std::int64_t t = 0; t < cut_.head_tiles(); ++t)
          sum += memory_.sink_parts()[(b * problem_.query_heads + h) * cut_.head_tiles() + t];
      static_cast<float*>(view.data)[h * view.strides[1]] = static_cast<float>(sum);
    }
  }

  void store_queries(const Scratch& scratch, std::int64_t kv_head, const Slot& slot,
                     const RowTile& tile) const {
    store(gradients_.dq, cut_.batch(kv_head), cut_.query_head(kv_head, tile), tile.query, tile.rows,
          problem_.head_dim, softmax_scale_, slot.dq + tile.at * head_dim_, scratch.stage);
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
  Cut cut_;
  Memory memory_;
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
  const Cut cut(plan.problem);
  plan.block_q = backward_tile.block_q;
  plan.block_kv = backward_tile.block_kv;
  plan.num_splits = 1;
  plan.work_items = cut.kv_heads() * std::max<std::int64_t>(cut.blocks(), cut.tiles() > 0 ? 1 : 0);
  plan.threads = threads_for(plan.work_items, facts, options);
  if (plan.work_items == 0) return;
  plan.workspace_bytes = static_cast<std::size_t>(Memory(cut, plan.threads, nullptr).bytes());
}

Status run_backward(const Plan& plan, const Tensors& tensors, const Gradients& gradients, Workspace workspace,
                    Stream) {
  BackwardRun run(plan, tensors, gradients, workspace.data);
  if (plan.work_items == 0) {
    run.clear_shared_gradients();
    return {};
  }
  if (static_cast<std::int64_t>(workspace.bytes) < run.workspace_bytes())
    return {StatusCode::invalid_argument,
            "plan: was changed after planning; its workspace no longer suffices"};
  run.run();
  return {};
}

}  // namespace runmax::cpu
