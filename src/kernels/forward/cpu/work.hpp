// The work of a call, sequence by sequence: how each is cut, in which order they are done, and how much
// memory that takes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/forward/cpu/geometry.hpp"

namespace runmax::cpu {

// True if all sequences of a batch have the same lengths, known when planning.
inline bool uniform(const Problem& p) { return p.varlen.empty() && !p.seqused; }

// Lengths of a sequence as far as the plan knows them: seqused makes its kv_len an upper bound.
inline SequenceLengths planned_lengths(const Problem& p, std::int64_t batch) {
  if (p.varlen.empty()) return {p.query_len, p.kv_len};
  return p.varlen[static_cast<std::size_t>(batch)];
}

// The work of each KV head of one sequence. Each KV head has its items: pack its keys, compute its row tiles
// (one item for each tile and split), merge the splits.
struct SequenceWork {
  Sequence sequence;
  std::int64_t batch = 0;
  std::int64_t splits = 1;
  std::int64_t split_keys = 0;  // keys of a split, a multiple of the panel
  // With one row tile every key is used once, and packing it in the tile that uses it costs no memory; with
  // several, packed K and V serve them all.
  bool shared_pack = false;
  std::int64_t row_tiles = 0;
  std::int64_t pack_items = 0, compute_items = 0, merge_items = 0;  // of one KV head
  std::int64_t first_item = 0;                                      // of the first KV head

  std::int64_t items() const { return pack_items + compute_items + merge_items; }
};

// Into how many parts the keys of the longest sequence are split: as asked, or from the problem alone, with
// `tile_rows` query rows to a work item.
inline std::int64_t choose_splits(const Problem& p, const PlanOptions& options, std::int64_t tile_rows) {
  const std::int64_t most = std::max<std::int64_t>(ceil_div(p.kv_len, forward_tile.panel), 1);
  if (options.num_splits > 0) return std::min<std::int64_t>(options.num_splits, most);
  const std::int64_t longest = std::max<std::int64_t>(p.kv_len / split_policy.keys, 1);
  // Bits that do not depend on the batch: as many splits as the keys alone allow, within reason.
  if (p.batch_invariant) return std::min<std::int64_t>(longest, 16);
  if (p.varlen.empty()) {
    const Geometry g(p);
    const std::int64_t items = std::max<std::int64_t>(g.kv_heads() * ceil_div(g.rows(), tile_rows), 1);
    return std::min(longest, ceil_div(split_policy.items, items));
  }
  // Parts as long as gives `items` of them in all.
  double keys = 0;
  for (const SequenceLengths& lengths : p.varlen) {
    const Geometry g(p, {lengths.query_len, lengths.kv_len, 0, 0});
    keys += static_cast<double>(p.kv_heads) * static_cast<double>(ceil_div(g.rows(), tile_rows)) *
            static_cast<double>(lengths.kv_len);
  }
  const double part = std::max(std::ceil(keys / static_cast<double>(split_policy.items)),
                               static_cast<double>(split_policy.keys));
  return std::min(longest, static_cast<std::int64_t>(std::ceil(static_cast<double>(p.kv_len) / part)));
}

// How the keys of a sequence are split: `num_splits` parts of the longest.
inline void split_keys(const Problem& p, std::int64_t num_splits, const Sequence& sequence, SequenceWork& w) {
  const auto keys_of = [](std::int64_t kv_len, std::int64_t splits) {
    return std::max(padded(ceil_div(kv_len, splits)), forward_tile.panel);
  };
  if (uniform(p)) {
    w.splits = num_splits;
    w.split_keys = keys_of(sequence.kv_len, w.splits);
  } else if (p.batch_invariant) {
    // As if the sequence were alone.
    w.splits = std::min(num_splits, std::max<std::int64_t>(sequence.kv_len / split_policy.keys, 1));
    w.split_keys = keys_of(sequence.kv_len, w.splits);
  } else {
    // Parts of one size, so that a long sequence among short ones is many pieces of work.
    w.split_keys = keys_of(p.kv_len, num_splits);
    w.splits = std::max<std::int64_t>(ceil_div(sequence.kv_len, w.split_keys), 1);
  }
}

inline SequenceWork work_of(const Problem& p, std::int64_t num_splits, const Sequence& sequence,
                            std::int64_t batch) {
  SequenceWork w;
  w.sequence = sequence;
  w.batch = batch;
  w.row_tiles = Geometry(p, sequence).row_tiles();
  if (w.row_tiles == 0) return w;
  split_keys(p, num_splits, sequence, w);
  w.shared_pack = w.row_tiles > 1;
  w.pack_items = w.shared_pack ? ceil_div(sequence.kv_len, forward_tile.block_kv) : 0;
  w.compute_items = w.row_tiles * w.splits;
  w.merge_items = num_splits > 1 ? w.row_tiles : 0;
  return w;
}

// What the work of all sequences needs at most. Packed keys and partial results lie in a ring of slots, so
// that they are used while they are still in the cache, and so that memory does not grow with the number of
// heads.
struct Schedule {
  std::int64_t num_splits = 1;
  SequenceWork first;              // the work of every sequence, if they are uniform
  bool shared_pack = false;        // of some sequence
  bool own_pack = false;           // some sequence packs in the tile that uses the keys
  std::int64_t rows = 0;           // of one KV head, at most
  std::int64_t kv_len = 0;         // at most
  std::int64_t states = 0;         // rows * splits of one KV head, at most
  std::int64_t compute_items = 0;  // of the call, at most
  std::int64_t slots = 0;          // 0: nothing is held between items
  std::int64_t sequences = 0;      // whose work is listed in the workspace: 0 if they are uniform

  Schedule(const Problem& p, std::int64_t splits, std::int32_t threads) : num_splits(splits) {
    const std::int64_t heads = Geometry(p).kv_heads();
    const bool same = uniform(p);
    const auto add = [&](const SequenceWork& w, std::int64_t kv_heads) {
      const std::int64_t its_rows = Geometry(p, w.sequence).rows();
      shared_pack = shared_pack || w.shared_pack;
      own_pack = own_pack || (w.row_tiles > 0 && !w.shared_pack);
      rows = std::max(rows, its_rows);
      kv_len = std::max(kv_len, w.sequence.kv_len);
      states = std::max(states, its_rows * w.splits);
      compute_items += kv_heads * w.compute_items;
    };
    if (p.varlen.empty()) {
      first = work_of(p, splits, {p.query_len, p.kv_len, 0, 0}, 0);
      add(first, heads);
    } else {
      for (const SequenceLengths& lengths : p.varlen)
        add(work_of(p, splits, {lengths.query_len, lengths.kv_len, 0, 0}, 0), p.kv_heads);
    }
    sequences = same ? 0 : p.batch;
    if ((!shared_pack && splits == 1) || heads == 0) return;
    // Enough heads in flight that no thread waits for the last tiles of one.
    const std::int64_t of_one = std::max<std::int64_t>(compute_items / heads, 1);
    const std::int64_t others = threads > 1 ? ceil_div(2 * std::int64_t{threads}, of_one) : 0;
    slots = std::min(heads, 1 + others);
  }
};

// The work of one KV head of one sequence.
struct Job {
  const SequenceWork* work = nullptr;
  std::int64_t index = 0;    // in the order of work
  std::int64_t kv_head = 0;  // through the batch
  std::int64_t item = 0;     // of this job
};

// Every sequence's work in the order in which it is done, longest first: no thread is left with a long one at
// the end.
class WorkList {
 public:
  // `memory` has room for `sequences`, 0 if all are as `of_each`; cut(sequence, batch) is the work of one.
  template <class Cut>
  WorkList(const Problem& p, const SequenceWork& of_each, std::int64_t sequences,
           const TensorView& kv_lengths, SequenceWork* memory, Cut cut)
      : problem_(p), uniform_(of_each), list_(memory, static_cast<std::size_t>(sequences)) {
    if (list_.empty()) {
      items_ = p.batch * p.kv_heads * uniform_.items();
      return;
    }
    Sequence next;
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const SequenceLengths lengths = planned_lengths(p, b);
      next.query_len = lengths.query_len;
      next.kv_len = p.seqused ? kv_length(kv_lengths, b) : lengths.kv_len;
      list_[static_cast<std::size_t>(b)] = cut(next, b);
      if (p.varlen.empty()) continue;
      next.query_start += lengths.query_len;
      next.kv_start += lengths.kv_len;
    }
    std::sort(list_.begin(), list_.end(), [](const SequenceWork& a, const SequenceWork& b) {
      const double pairs_a = pairs(a), pairs_b = pairs(b);
      return pairs_a != pairs_b ? pairs_a > pairs_b : a.batch < b.batch;
    });
    for (SequenceWork& w : list_) {
      w.first_item = items_;
      items_ += w.items() * p.kv_heads;
    }
  }

  static std::int64_t kv_length(const TensorView& lengths, std::int64_t batch) {
    return static_cast<const std::int32_t*>(lengths.data)[batch * lengths.strides[0]];
  }

  std::int64_t items() const { return items_; }

  // The job of an item of the call.
  Job job(std::int64_t item) const {
    if (list_.empty()) {
      const std::int64_t head = item / uniform_.items();
      return {&uniform_, head, head, item % uniform_.items()};
    }
    const auto after =
        std::upper_bound(list_.begin(), list_.end(), item,
                         [](std::int64_t value, const SequenceWork& w) { return value < w.first_item; });
    // The last that begins at or before the item: those without items begin where the next one does, before
    // it.
    const SequenceWork& w = *(after - 1);
    const std::int64_t head = (item - w.first_item) / w.items();
    return {&w, (after - 1 - list_.begin()) * problem_.kv_heads + head, w.batch * problem_.kv_heads + head,
            (item - w.first_item) % w.items()};
  }

  // The work of a job by its place in the order.
  const SequenceWork& work_at(std::int64_t index) const {
    return list_.empty() ? uniform_ : list_[static_cast<std::size_t>(index / problem_.kv_heads)];
  }

 private:
  static double pairs(const SequenceWork& w) {
    return static_cast<double>(w.sequence.query_len) * static_cast<double>(w.sequence.kv_len);
  }

  const Problem& problem_;
  const SequenceWork& uniform_;
  std::span<SequenceWork> list_;
  std::int64_t items_ = 0;
};

}  // namespace runmax::cpu
