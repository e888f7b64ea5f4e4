// cpu_double_backward: gradients in double precision. Whoever owns an output computes all of it: an item is a
// tile of query rows, which takes in all keys for its dQ, or a block of keys, which takes in all query rows
// for its dK and dV. Weights are computed for both; nothing is shared, so every sum has one order.
#include <cmath>
#include <limits>

#include "kernels/backward/cpu/in_workspace.hpp"
#include "kernels/backward/cpu/launch.hpp"
#include "kernels/backward/cpu/pages.hpp"
#include "kernels/forward/cpu/double_options.hpp"
#include "kernels/forward/cpu/double_rows.hpp"
#include "kernels/forward/cpu/double_tiles.hpp"
#include "kernels/forward/cpu/geometry.hpp"
#include "kernels/forward/cpu/kv_rows.hpp"
#include "kernels/forward/cpu/work.hpp"
#include "runtime/workers.hpp"

namespace runmax::cpu {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
constexpr double log2_e = 1.4426950408889634074;
constexpr std::int64_t stride = double_tile.block_kv;  // of rows of pairs, and of pairs key by key
// Keys of a block in whole register tiles.
constexpr std::int64_t block_keys = round_up(double_tile.block_kv, double_tile.rows);
static_assert(double_tile.block_q <= stride);

// A batch element, and where it stands.
struct Element {
  Sequence sequence;
  std::int64_t batch = 0;
  std::int64_t tensor_batch = 0;
};

// Query rows of one head, at most block_q.
struct Rows {
  std::int64_t head = 0;
  std::int64_t query = 0;  // the first
  std::int64_t count = 0;
};

// Tiles of query rows of one head.
std::int64_t head_tiles(const Sequence& sequence) {
  return ceil_div(sequence.query_len, double_tile.block_q);
}

// Keys that have gradients, used or not.
std::int64_t room_for_keys(const Problem& p, std::int64_t batch) { return planned_lengths(p, batch).kv_len; }

std::int64_t group_of(const Problem& p) { return p.kv_heads == 0 ? 0 : p.query_heads / p.kv_heads; }

SequenceWork double_work(const Problem& p, const Sequence& sequence, std::int64_t batch) {
  SequenceWork w;
  w.sequence = sequence;
  w.batch = batch;
  w.row_tiles = group_of(p) * head_tiles(sequence);
  w.compute_items = w.row_tiles + ceil_div(room_for_keys(p, batch), double_tile.block_kv);
  return w;
}

std::int64_t all_items(const Problem& p) {
  std::int64_t items = 0;
  for (std::int64_t b = 0; b < (p.varlen.empty() ? 1 : p.batch); ++b) {
    const SequenceLengths lengths = planned_lengths(p, b);
    items += double_work(p, {lengths.query_len, lengths.kv_len, 0, 0}, b).compute_items * p.kv_heads;
  }
  return p.varlen.empty() ? items * p.batch : items;
}

// One thread's memory. Pairs lie row by row, and for dK and dV key by key besides.
struct Scratch {
  double *q, *dout;                             // [tile][dim][6]
  double *q_rows, *dout_rows;                   // (block_q, padded)
  double *k, *v;                                // [panel][dim][32]
  double* k_rows;                               // (block_kv, padded)
  double *weights, *gradients;                  // (block_q, block_kv): P with dropout, dS
  double* final_gradients;                      // dS by the score after the softcap
  double *weights_of_keys, *gradients_of_keys;  // (block_keys, block_kv)
  double *dq, *dk, *dv;
  double *lse, *delta;  // (block_q)
  double* sums;         // (block_q, block_kv) of dBias
  DoubleKeys* keys;     // (block_q) that the row sees in the block
  std::uint8_t *sees, *sees_of_keys;
};

struct Memory {
  SequenceWork* list = nullptr;
  // Of paged keys: dK and dV of each batch element, (batch, kv_heads, kv_len, dim), and who uses which page.
  double *dk = nullptr, *dv = nullptr;
  PageUse* uses = nullptr;
  float* scratch = nullptr;
  std::int64_t scratch_floats = 0;
  std::int64_t bytes = 0;

  Memory(const Problem& p, std::int32_t threads, void* data) {
    Regions regions(data);
    list = regions.take_objects<SequenceWork>(uniform(p) ? 0 : p.batch);
    const std::int64_t keys = p.page_size > 0 ? p.batch * p.kv_heads * p.kv_len : 0;
    dk = regions.take_objects<double>(keys * p.head_dim);
    dv = regions.take_objects<double>(keys * p.value_dim);
    uses = regions.take_objects<PageUse>(most_page_uses(p));
    Regions one;
    scratch_of(p, one);
    scratch_floats = one.bytes() / static_cast<std::int64_t>(sizeof(float));
    scratch = regions.take(std::max(threads, 1) * scratch_floats);
    bytes = regions.bytes();
  }

  static Scratch scratch_of(const Problem& p, Regions& regions) {
    constexpr std::int64_t rows = double_tile.block_q, keys = double_tile.block_kv;
    const std::int64_t head_width = padded_width(p.head_dim), value_width = padded_width(p.value_dim);
    const auto take = [&](std::int64_t doubles) { return regions.take_objects<double>(doubles); };
    const auto flags = [&](std::int64_t count) {
      return reinterpret_cast<std::uint8_t*>(regions.take(count / std::int64_t{sizeof(float)}));
    };
    Scratch s{};
    s.q = take(rows * p.head_dim);
    s.dout = take(rows * p.value_dim);
    s.q_rows = take(rows * head_width);
    s.dout_rows = take(rows * value_width);
    s.k = take(keys * p.head_dim);
    s.v = take(keys * p.value_dim);
    s.k_rows = take(keys * head_width);
    s.weights = take(rows * stride);
    s.gradients = take(rows * stride);
    s.final_gradients = take(rows * stride);
    s.weights_of_keys = take(block_keys * stride);
    s.gradients_of_keys = take(block_keys * stride);
    s.dq = take(rows * head_width);
    s.dk = take(keys * head_width);
    s.dv = take(keys * value_width);
    s.lse = take(rows);
    s.delta = take(rows);
    s.sums = take(rows * stride);
    s.keys = regions.take_objects<DoubleKeys>(rows);
    s.sees = flags(rows * stride);
    s.sees_of_keys = flags(block_keys * stride);
    return s;
  }
};

class DoubleBackward {
 public:
  DoubleBackward(const Plan& plan, const Tensors& tensors, const Gradients& gradients, void* workspace)
      : problem_(plan.problem),
        tensors_(tensors),
        gradients_(gradients),
        memory_(problem_, plan.threads, workspace),
        uniform_(double_work(problem_, {problem_.query_len, problem_.kv_len, 0, 0}, 0)),
        options_(problem_, tensors),
        functions_(double_functions()),
        head_width_(padded_width(problem_.head_dim)),
        value_width_(padded_width(problem_.value_dim)),
        scale_(effective_scale(problem_)),
        workers_(plan.threads) {}

  std::int64_t workspace_bytes() const { return memory_.bytes; }

  // Where no item is: dBias, dSink and pages may have elements nevertheless.
  void clear() const {
    for (const TensorView* view : {&gradients_.dk, &gradients_.dv, &gradients_.dbias, &gradients_.dsink})
      for (std::int64_t n = 0; view->data && n < view->elements(); ++n)
        *element(*view, n / view->dim() / view->length() / view->heads(),
                 n / view->dim() / view->length() % view->heads(), n / view->dim() % view->length(),
                 n % view->dim()) = 0;
  }

  void run() const {
    const WorkList list(
        problem_, uniform_, uniform(problem_) ? 0 : problem_.batch, tensors_.kv_lengths, memory_.list,
        [&](const Sequence& sequence, std::int64_t b) { return double_work(problem_, sequence, b); });
    workers_.for_each(list.items(), [&](std::int64_t worker, std::int64_t item) {
      const Job job = list.job(item);
      const Element of = element_of(job.work->sequence, job.kv_head / problem_.kv_heads);
      const std::int64_t kv_head = job.kv_head % problem_.kv_heads;
      if (job.item < job.work->row_tiles)
        compute_rows(scratch(worker), of, kv_head, job.item);
      else
        compute_keys(scratch(worker), of, kv_head, (job.item - job.work->row_tiles) * double_tile.block_kv);
    });
    if (problem_.page_size > 0) store_pages(list);
    if (gradients_.dbias.data) {
      const std::int64_t tiles = ceil_div(gradients_.dbias.length(), double_tile.block_q);
      const std::int64_t heads = gradients_.dbias.heads();
      workers_.for_each(gradients_.dbias.batch() * heads * tiles,
                        [&](std::int64_t worker, std::int64_t item) {
                          compute_bias(scratch(worker), list, item / tiles / heads, item / tiles % heads,
                                       item % tiles * double_tile.block_q);
                        });
    }
    if (gradients_.dsink.data)
      workers_.for_each(problem_.query_heads,
                        [&](std::int64_t, std::int64_t head) { compute_sink(list, head); });
  }

 private:
  Scratch scratch(std::int64_t worker) const {
    Regions regions(memory_.scratch + worker * memory_.scratch_floats);
    return Memory::scratch_of(problem_, regions);
  }
  Element element_of(const Sequence& sequence, std::int64_t batch) const {
    return {sequence, batch, problem_.varlen.empty() ? batch : 0};
  }
  Element element_at(const WorkList& list, std::int64_t n) const {
    return element_of(list.work_at(n * problem_.kv_heads).sequence, batch_at(problem_, list, n));
  }
  static double* element(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t i,
                         std::int64_t c = 0) {
    return static_cast<double*>(view.data) + b * view.strides[0] + h * view.strides[1] + i * view.strides[2] +
           c * view.strides[3];
  }
  // A row of Q, O, LSE or their gradients.
  static double* query_row(const TensorView& view, const Element& of, std::int64_t head, std::int64_t query) {
    return element(view, of.tensor_batch, head, of.sequence.query_start + query);
  }
  std::int64_t kv_head_of(std::int64_t head) const { return head / group_of(problem_); }

  // delta: what dO and O of a row have in common.
  double delta(const Element& of, std::int64_t head, std::int64_t query) const {
    const double* dout = query_row(gradients_.dout, of, head, query);
    const double* o = query_row(tensors_.o, of, head, query);
    double sum = 0;
    for (std::int64_t c = 0; c < problem_.value_dim; ++c)
      sum += dout[c * gradients_.dout.strides[3]] * o[c * tensors_.o.strides[3]];
    return sum;
  }

  void take_rows(const Scratch& s, const Element& of, const Rows& rows) const {
    const std::int64_t dim = problem_.head_dim, value_dim = problem_.value_dim;
    const std::int64_t filled = round_up(rows.count, double_tile.rows);
    std::fill(s.q, s.q + filled * dim, 0.0);
    std::fill(s.dout, s.dout + filled * value_dim, 0.0);
    const std::int64_t first = of.sequence.query_start + rows.query;
    const ElementRows q = element_rows(tensors_.q, of.tensor_batch, rows.head, first);
    const ElementRows dout = element_rows(gradients_.dout, of.tensor_batch, rows.head, first);
    for (std::int64_t r = 0; r < rows.count; ++r) {
      pack_left(q, r, dim, 1, r, s.q);
      pack_left(dout, r, value_dim, 1, r, s.dout);
      pad_row(q, r, dim, s.q_rows + r * head_width_);
      pad_row(dout, r, value_dim, s.dout_rows + r * value_width_);
      s.lse[r] = *query_row(tensors_.lse, of, rows.head, rows.query + r);
      s.delta[r] = delta(of, rows.head, rows.query + r);
    }
  }

  void take_keys(const Scratch& s, const Element& of, std::int64_t kv_head, std::int64_t key,
                 std::int64_t keys) const {
    const KvRows k = kv_rows_of(problem_, tensors_, tensors_.k, of.batch, kv_head, of.sequence);
    const KvRows v = kv_rows_of(problem_, tensors_, tensors_.v, of.batch, kv_head, of.sequence);
    pack_panels(k, key, keys, problem_.head_dim, s.k);
    pack_panels(v, key, keys, problem_.value_dim, s.v);
    pad_rows(k, key, keys, problem_.head_dim, s.k_rows);
  }

  // What each of the rows sees of keys [key, key + keys); false if none sees any.
  bool find_keys(const Scratch& s, const Element& of, const Rows& rows, std::int64_t key,
                 std::int64_t keys) const {
    bool any = false;
    for (std::int64_t r = 0; r < rows.count; ++r) {
      const KeyRange sees = visible_keys(problem_.causal, problem_.window, of.sequence.query_len,
                                         of.sequence.kv_len, rows.query + r);
      const std::int64_t low = std::clamp(sees.begin, key, key + keys);
      const std::int64_t high = s.lse[r] == minus_infinity
                                    ? low
                                    : std::clamp(std::min(sees.end, of.sequence.kv_len), low, key + keys);
      s.keys[r] = {static_cast<std::int32_t>(low - key), static_cast<std::int32_t>(high - key)};
      any = any || low < high;
    }
    return any;
  }

  // P and dS of the rows and keys that were taken; false if no pair is visible.
  bool make_pairs(const Scratch& s, const Element& of, const Rows& rows, std::int64_t key,
                  std::int64_t keys) const {
    if (!find_keys(s, of, rows, key, keys)) return false;
    for (std::int64_t r = 0; r < rows.count; r += double_tile.rows) {
      functions_.products(s.q + r * problem_.head_dim, s.k, problem_.head_dim, keys, s.weights + r * stride);
      functions_.products(s.dout + r * problem_.value_dim, s.v, problem_.value_dim, keys,
                          s.gradients + r * stride);
    }
    for (std::int64_t r = 0; r < rows.count; ++r) make_row(s, of, rows, r, key);
    return true;
  }

  // From q k and dO v of a row to P and dS; 0 where a key is hidden.
  void make_row(const Scratch& s, const Element& of, const Rows& rows, std::int64_t r,
                std::int64_t key) const {
    const DoubleKeys keys = s.keys[r];
    double *weights = s.weights + r * stride, *gradients = s.gradients + r * stride,
           *final_gradients = s.final_gradients + r * stride;
    std::uint8_t* sees = s.sees + r * stride;
    std::fill(sees, sees + stride, std::uint8_t{0});
    std::fill(final_gradients, final_gradients + stride, 0.0);
    const DoubleOptions::Row options(
        options_, {of.batch, rows.head, rows.query + r},
        diagonal_offset(problem_.causal, of.sequence.query_len, of.sequence.kv_len));
    double cap_slope[stride] = {};
    for (std::int32_t j = keys.begin; j < keys.end; ++j) {
      const DoubleOptions::Score score = options.score(scale_ * weights[j], key + j);
      sees[j] = score.visible ? 1 : 0;
      cap_slope[j] = score.cap_slope;
      // A weight is at most 1; what lies above comes from the rounding of LSE. NaN stays.
      const double x = score.visible ? score.value - s.lse[r] : minus_infinity;
      weights[j] = x > 0 ? 0 : x;
    }
    functions_.exp2(weights + keys.begin, log2_e, weights + keys.begin, keys.end - keys.begin);
    std::fill(weights, weights + keys.begin, 0.0);
    std::fill(weights + keys.end, weights + stride, 0.0);
    std::fill(gradients, gradients + keys.begin, 0.0);
    std::fill(gradients + keys.end, gradients + stride, 0.0);
    for (std::int32_t j = keys.begin; j < keys.end; ++j) {
      if (!sees[j]) {
        gradients[j] = 0;
        continue;
      }
      const double kept = !options_.drops() ? 1 : options.kept(key + j) ? options_.kept_factor() : 0;
      final_gradients[j] = weights[j] * (kept * gradients[j] - s.delta[r]);
      gradients[j] = final_gradients[j] * cap_slope[j];
      weights[j] *= kept;
    }
  }

  Rows tile(const Element& of, std::int64_t kv_head, std::int64_t t) const {
    Rows rows;
    const std::int64_t of_head = head_tiles(of.sequence);
    rows.head = kv_head * group_of(problem_) + t / of_head;
    rows.query = t % of_head * double_tile.block_q;
    rows.count = std::min(double_tile.block_q, of.sequence.query_len - rows.query);
    return rows;
  }

  // dQ of a tile of rows.
  void compute_rows(const Scratch& s, const Element& of, std::int64_t kv_head, std::int64_t t) const {
    const Rows rows = tile(of, kv_head, t);
    take_rows(s, of, rows);
    std::fill(s.dq, s.dq + rows.count * head_width_, 0.0);
    for (std::int64_t key = 0; key < of.sequence.kv_len; key += double_tile.block_kv) {
      const std::int64_t keys = std::min(double_tile.block_kv, of.sequence.kv_len - key);
      if (!find_keys(s, of, rows, key, keys)) continue;
      take_keys(s, of, kv_head, key, keys);
      make_pairs(s, of, rows, key, keys);
      for (std::int64_t r = 0; r < rows.count; r += double_tile.rows)
        add_visible_values(functions_, s.gradients + r * stride, s.k_rows, head_width_,
                           std::min(double_tile.rows, rows.count - r), s.keys + r, s.sees + r * stride,
                           s.dq + r * head_width_);
    }
    for (std::int64_t r = 0; r < rows.count; ++r)
      store_row(s.dq + r * head_width_, scale_, problem_.head_dim,
                query_row(gradients_.dq, of, rows.head, rows.query + r), gradients_.dq.strides[3]);
  }

  // dK and dV of a block of keys; those behind the length in use get 0.
  void compute_keys(const Scratch& s, const Element& of, std::int64_t kv_head, std::int64_t key) const {
    const std::int64_t room = std::min(double_tile.block_kv, room_for_keys(problem_, of.batch) - key);
    const std::int64_t keys = std::clamp<std::int64_t>(of.sequence.kv_len - key, 0, room);
    std::fill(s.dk, s.dk + room * head_width_, 0.0);
    std::fill(s.dv, s.dv + room * value_width_, 0.0);
    if (keys > 0) take_keys(s, of, kv_head, key, keys);
    for (std::int64_t t = 0; keys > 0 && t < group_of(problem_) * head_tiles(of.sequence); ++t) {
      const Rows rows = tile(of, kv_head, t);
      take_rows(s, of, rows);
      if (!make_pairs(s, of, rows, key, keys)) continue;
      for (std::int64_t r = 0; r < rows.count; ++r)
        for (std::int64_t j = 0; j < keys; ++j) {
          s.weights_of_keys[j * stride + r] = s.weights[r * stride + j];
          s.gradients_of_keys[j * stride + r] = s.gradients[r * stride + j];
          s.sees_of_keys[j * stride + r] = s.sees[r * stride + j];
        }
      DoubleKeys all[double_tile.rows];
      std::fill(all, all + double_tile.rows, DoubleKeys{0, static_cast<std::int32_t>(rows.count)});
      for (std::int64_t j = 0; j < keys; j += double_tile.rows) {
        const std::int64_t together = std::min(double_tile.rows, keys - j);
        const std::uint8_t* sees = s.sees_of_keys + j * stride;
        add_visible_values(functions_, s.weights_of_keys + j * stride, s.dout_rows, value_width_, together,
                           all, sees, s.dv + j * value_width_);
        add_visible_values(functions_, s.gradients_of_keys + j * stride, s.q_rows, head_width_, together, all,
                           sees, s.dk + j * head_width_);
      }
    }
    for (std::int64_t j = 0; j < room; ++j) {
      store_key(gradients_.dk, memory_.dk, of, kv_head, key + j, s.dk + j * head_width_, scale_);
      store_key(gradients_.dv, memory_.dv, of, kv_head, key + j, s.dv + j * value_width_, 1);
    }
  }

  static void store_row(const double* from, double factor, std::int64_t dim, double* to, std::int64_t step) {
    for (std::int64_t c = 0; c < dim; ++c) to[c * step] = factor * from[c];
  }
  // Where the caller wants it, or into `of_elements` until all users of its page are done.
  void store_key(const TensorView& view, double* of_elements, const Element& of, std::int64_t kv_head,
                 std::int64_t key, const double* from, double factor) const {
    if (problem_.page_size > 0)
      store_row(from, factor, view.dim(),
                of_elements + PageUses::element_key(problem_, of.batch, kv_head, key) * view.dim(), 1);
    else
      store_row(from, factor, view.dim(), element(view, of.tensor_batch, kv_head, of.sequence.kv_start + key),
                view.strides[3]);
  }

  // dK and dV of every page: 0 where nobody uses it.
  void store_pages(const WorkList& list) const {
    const PageUses uses(problem_, tensors_.page_table, list, memory_.uses);
    workers_.for_each(gradients_.dk.batch() * problem_.kv_heads, [&](std::int64_t worker, std::int64_t item) {
      const std::int64_t page = item / problem_.kv_heads, kv_head = item % problem_.kv_heads;
      double* const row = scratch(worker).dk;
      for (const auto& [view, of_elements] :
           {std::pair{&gradients_.dk, memory_.dk}, std::pair{&gradients_.dv, memory_.dv}})
        for (std::int64_t r = 0; r < problem_.page_size; ++r) {
          double* const to = view == &gradients_.dk ? row : scratch(worker).dv;
          uses.sum_row(uses.of(page), of_elements, kv_head, r, view->dim(), to);
          store_row(to, 1, view->dim(), element(*view, page, kv_head, r), view->strides[3]);
        }
    });
  }

  // dBias of batch element b, head h and rows [first, ...), or of what is broadcast in their place: the sum
  // over all batch elements, heads, rows and keys that share it.
  void compute_bias(const Scratch& s, const WorkList& list, std::int64_t b, std::int64_t h,
                    std::int64_t first) const {
    const TensorView& view = gradients_.dbias;
    const auto shares = [&](std::size_t axis, std::int64_t size) {
      return view.shape[axis] == 1 && size != 1;
    };
    const bool batch_shares = shares(0, problem_.batch), heads_share = shares(1, problem_.query_heads),
               rows_share = shares(2, problem_.query_len), keys_share = shares(3, problem_.kv_len);
    const std::int64_t count = std::min(double_tile.block_q, view.length() - first);
    double sums_of_rows[double_tile.block_q] = {};
    for (std::int64_t key = 0; key < problem_.kv_len; key += double_tile.block_kv) {
      std::fill(s.sums, s.sums + count * stride, 0.0);
      for (std::int64_t n = 0; n < problem_.batch; ++n) {
        const Element of = element_at(list, n);
        if (!batch_shares && of.batch != b) continue;
        for (std::int64_t head = heads_share ? 0 : h; head < (heads_share ? problem_.query_heads : h + 1);
             ++head)
          add_bias(s, of, head, rows_share ? 0 : first,
                   rows_share ? of.sequence.query_len : std::min(first + count, of.sequence.query_len),
                   rows_share ? 0 : first, key);
      }
      const std::int64_t keys = std::min(double_tile.block_kv, problem_.kv_len - key);
      for (std::int64_t r = 0; r < count; ++r)
        for (std::int64_t j = 0; j < keys; ++j) {
          if (keys_share)
            sums_of_rows[r] += s.sums[r * stride + j];
          else
            *element(view, b, h, first + r, key + j) = s.sums[r * stride + j];
        }
    }
    for (std::int64_t r = 0; r < count && keys_share; ++r) *element(view, b, h, first + r) = sums_of_rows[r];
  }

  // What rows [first, end) of a head give to the elements of a block of keys; row `base` is the first of
  // s.sums, or all rows are if there is but one.
  void add_bias(const Scratch& s, const Element& of, std::int64_t head, std::int64_t first, std::int64_t end,
                std::int64_t base, std::int64_t key) const {
    const std::int64_t keys = std::min(double_tile.block_kv, of.sequence.kv_len - key);
    if (keys <= 0 || first >= end) return;
    take_keys(s, of, kv_head_of(head), key, keys);
    const bool one = gradients_.dbias.length() == 1;
    for (Rows rows{head, first, 0}; rows.query < end; rows.query += rows.count) {
      rows.count = std::min(double_tile.block_q, end - rows.query);
      take_rows(s, of, rows);
      if (!make_pairs(s, of, rows, key, keys)) continue;
      for (std::int64_t r = 0; r < rows.count; ++r)
        for (std::int64_t j = 0; j < keys; ++j)
          s.sums[(one ? 0 : rows.query + r - base) * stride + j] += s.final_gradients[r * stride + j];
    }
  }

  // The sink is a score without a value: its dP is 0, and its dS is - P delta.
  void compute_sink(const WorkList& list, std::int64_t head) const {
    double sum = 0;
    for (std::int64_t n = 0; n < problem_.batch; ++n) {
      const Element of = element_at(list, n);
      for (std::int64_t i = 0; i < of.sequence.query_len; ++i) {
        const double lse = *query_row(tensors_.lse, of, head, i);
        if (lse == minus_infinity) continue;
        sum -= std::exp(std::min(options_.sink(head) - lse, 0.0)) * delta(of, head, i);
      }
    }
    *element(gradients_.dsink, 0, head, 0) = sum;
  }

  const Problem& problem_;
  const Tensors& tensors_;
  const Gradients& gradients_;
  Memory memory_;
  SequenceWork uniform_;
  DoubleOptions options_;
  const DoubleFunctions& functions_;
  std::int64_t head_width_, value_width_;
  double scale_;
  Workers workers_;
};

}  // namespace

std::optional<std::string> double_backward_refuses(const Problem& p, const DeviceFacts& facts,
                                                   const PlanOptions& options) {
  if (options.num_splits > 1)
    return "num_splits: a row's dQ takes in all keys in one order, got " + std::to_string(options.num_splits);
  // Twice the size of what an f32 problem needs at most.
  return too_large(p, 2, 4.0 * (options.threads > 0 ? options.threads : facts.threads));
}

void fill_double_backward_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  plan.block_q = double_tile.block_q;
  plan.block_kv = double_tile.block_kv;
  plan.num_splits = 1;
  plan.work_items = all_items(plan.problem);
  plan.threads = threads_for(plan.work_items, facts, options);
  if (plan.work_items == 0) return;
  plan.workspace_bytes = static_cast<std::size_t>(Memory(plan.problem, plan.threads, nullptr).bytes);
}

Status run_double_backward(const Plan& plan, const Tensors& tensors, const Gradients& gradients,
                           Workspace workspace, Stream) {
  return run_backward_in_workspace<DoubleBackward>(plan, tensors, gradients, workspace);
}

}  // namespace runmax::cpu
