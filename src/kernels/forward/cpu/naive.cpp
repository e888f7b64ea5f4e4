// cpu_naive: the score matrix of every head is stored, softmax runs over whole rows, then the weighted sum.
#include <limits>

#include "kernels/forward/cpu/geometry.hpp"
#include "kernels/forward/cpu/launch.hpp"
#include "kernels/forward/cpu/tiles.hpp"
#include "runtime/workers.hpp"

namespace runmax::cpu {
namespace {

// Rows whose register tiles are handed out together.
constexpr std::int64_t block_rows = forward_tile.small_block_q;

// Floats from one row of the matrix to the next; never a multiple of 1 KiB, which would send a register
// tile's rows to the same cache sets and charge more to the matrix than its size.
std::int64_t matrix_stride(std::int64_t kv_len) {
  const std::int64_t stride = padded(kv_len);
  return stride % 256 == 0 ? stride + forward_tile.panel : stride;
}

struct Memory {
  float* matrix = nullptr;    // (kv heads of the batch, rows, matrix_stride): scores, then weights
  float* packed_k = nullptr;  // (kv heads of the batch, padded kv_len, head_dim)
  float* packed_v = nullptr;  // (kv heads of the batch, kv_len, padded value_dim)
  float* max = nullptr;       // (kv heads of the batch, rows)
  float* sum = nullptr;
  float* scratch = nullptr;  // per thread: queries, output, rescale, keys of a block of rows
  std::int64_t scratch_floats = 0;
  std::int64_t bytes = 0;

  Memory(const Geometry& g, std::int32_t threads, void* data) {
    const Problem& p = g.problem();
    Regions regions(data);
    matrix = regions.take(g.kv_heads() * g.rows() * matrix_stride(p.kv_len));
    packed_k = regions.take(g.kv_heads() * padded(p.kv_len) * p.head_dim);
    packed_v = regions.take(g.kv_heads() * p.kv_len * padded(p.value_dim));
    max = regions.take(g.kv_heads() * g.rows());
    sum = regions.take(g.kv_heads() * g.rows());
    Regions one;
    one.take(block_rows * p.head_dim + block_rows * padded(p.value_dim) + 3 * block_rows);
    scratch_floats = one.bytes() / static_cast<std::int64_t>(sizeof(float));
    scratch = regions.take(std::max(threads, 1) * scratch_floats);
    bytes = regions.bytes();
  }
};

class NaiveRun {
 public:
  NaiveRun(const Plan& plan, const Tensors& tensors, void* workspace)
      : problem_(plan.problem),
        tensors_(tensors),
        geometry_(problem_),
        memory_(geometry_, plan.threads, workspace),
        scale_(split_scale(effective_scale(problem_))),
        functions_(tile_functions()),
        matrix_stride_(matrix_stride(problem_.kv_len)),
        value_dim_(padded(problem_.value_dim)),
        in_place_(values_in_place(tensors.v)),
        workers_(plan.threads) {}

  std::int64_t workspace_bytes() const { return memory_.bytes; }

  void run() {
    pack();
    const auto each_block = [&](auto phase) {
      const std::int64_t blocks = ceil_div(geometry_.rows(), block_rows);
      workers_.for_each(geometry_.kv_heads() * blocks, [&](std::int64_t worker, std::int64_t item) {
        Block block;
        block.kv_head = item / blocks;
        block.first = item % blocks * block_rows;
        block.rows = std::min(block_rows, geometry_.rows() - block.first);
        block.q = memory_.scratch + worker * memory_.scratch_floats;
        block.out = block.q + block_rows * problem_.head_dim;
        block.rescale = block.out + block_rows * value_dim_;
        block.keys = reinterpret_cast<TileKeys*>(block.rescale + block_rows);
        phase(block);
      });
    };
    each_block([&](const Block& block) { store_scores(block); });
    each_block([&](const Block& block) { store_weights(block); });
    each_block([&](const Block& block) { store_sums(block); });
  }

 private:
  struct Block {
    std::int64_t kv_head = 0, first = 0, rows = 0;
    float* q = nullptr;
    float* out = nullptr;
    float* rescale = nullptr;
    TileKeys* keys = nullptr;
  };

  StridedRows head_rows_of(const TensorView& view, std::int64_t kv_head, std::int64_t key) const {
    return head_rows(view, kv_head / problem_.kv_heads, kv_head % problem_.kv_heads, key);
  }

  PackedValues packed_values(std::int64_t kv_head) const {
    return {memory_.packed_v + kv_head * problem_.kv_len * value_dim_, problem_.kv_len};
  }

  void pack() {
    const std::int64_t kv_len = problem_.kv_len;
    const std::int64_t blocks = ceil_div(kv_len, forward_tile.block_kv);
    workers_.for_each(geometry_.kv_heads() * blocks, [&](std::int64_t, std::int64_t item) {
      const std::int64_t head = item / blocks;
      const std::int64_t key = item % blocks * forward_tile.block_kv;
      const std::int64_t keys = std::min(forward_tile.block_kv, kv_len - key);
      functions_.pack_keys(head_rows_of(tensors_.k, head, key), keys, problem_.head_dim,
                           memory_.packed_k + (head * padded(problem_.kv_len) + key) * problem_.head_dim);
      if (!in_place_)
        functions_.pack_values(head_rows_of(tensors_.v, head, key), keys, problem_.value_dim, key,
                               packed_values(head));
    });
  }

  // Sets the keys that each row sees among [key, key + block_kv), relative to key; false if there are none.
  bool set_keys(const Block& block, std::int64_t key) const {
    const std::int64_t end = std::min(key + forward_tile.block_kv, problem_.kv_len);
    bool any = false;
    for (std::int64_t r = 0; r < block.rows; ++r) {
      const KeyRange keys = geometry_.keys(block.first + r);
      const std::int64_t low = std::clamp(keys.begin, key, end);
      const std::int64_t high = std::clamp(keys.end, low, end);
      block.keys[r] = {static_cast<std::int32_t>(low - key), static_cast<std::int32_t>(high - key)};
      any = any || low < high;
    }
    return any;
  }

  float* matrix_row(const Block& block) const {
    return memory_.matrix + (block.kv_head * geometry_.rows() + block.first) * matrix_stride_;
  }

  void store_scores(const Block& block) const {
    scale_query_tile(geometry_, tensors_.q, block.kv_head, block.first, block.rows, scale_.query_factor,
                     nullptr, block.q);
    for (std::int64_t key = 0; key < problem_.kv_len; key += forward_tile.block_kv) {
      if (!set_keys(block, key)) continue;
      ScoreTile tile;
      tile.q = block.q;
      tile.k = memory_.packed_k + (block.kv_head * padded(problem_.kv_len) + key) * problem_.head_dim;
      tile.head_dim = problem_.head_dim;
      tile.rows = block.rows;
      tile.keys = block.keys;
      tile.scores = matrix_row(block) + key;
      tile.scores_stride = matrix_stride_;
      functions_.scores(tile);
    }
  }

  // Softmax over whole rows: the maximum first, then the weights and their sum.
  void store_weights(const Block& block) const {
    float* row = matrix_row(block);
    const std::int64_t state = block.kv_head * geometry_.rows() + block.first;
    for (std::int64_t r = 0; r < block.rows; ++r, row += matrix_stride_) {
      const KeyRange keys = geometry_.keys(block.first + r);
      memory_.max[state + r] = functions_.largest(row + keys.begin, keys.end - keys.begin);
      memory_.sum[state + r] = 0;
    }
    for (std::int64_t key = 0; key < problem_.kv_len; key += forward_tile.block_kv) {
      if (!set_keys(block, key)) continue;
      WeightTile tile;
      tile.scores = matrix_row(block) + key;
      tile.scores_stride = matrix_stride_;
      tile.rows = block.rows;
      tile.keys = block.keys;
      tile.exponent_scale = scale_.exponent_scale;
      tile.states = {memory_.max + state, memory_.sum + state, block.rescale};
      functions_.weights(tile);
    }
  }

  void store_sums(const Block& block) const {
    std::fill(block.out, block.out + block.rows * value_dim_, 0.0f);
    for (std::int64_t key = 0; key < problem_.kv_len; key += forward_tile.block_kv) {
      if (!set_keys(block, key)) continue;
      ValueTile tile;
      tile.weights = matrix_row(block) + key;
      tile.weights_stride = matrix_stride_;
      tile.v = in_place_ ? values_where_they_lie(head_rows_of(tensors_.v, block.kv_head, key), false)
                         : rows_of(packed_values(block.kv_head), key);
      tile.padded_value_dim = value_dim_;
      tile.rows = block.rows;
      tile.keys = block.keys;
      tile.out = block.out;
      functions_.values(tile);
    }
    const std::int64_t states = block.kv_head * geometry_.rows() + block.first;
    store_rows(geometry_, tensors_, functions_, block.kv_head, block.first, block.rows, block.out,
               memory_.max + states, memory_.sum + states, scale_);
  }

  const Problem& problem_;
  const Tensors& tensors_;
  Geometry geometry_;
  Memory memory_;
  ScaleParts scale_;
  const TileFunctions& functions_;
  std::int64_t matrix_stride_;
  std::int64_t value_dim_;
  bool in_place_;
  Workers workers_;
};

}  // namespace

std::optional<std::string> naive_refuses(const Problem& p, const DeviceFacts& facts,
                                         const PlanOptions& options) {
  if (options.num_splits > 1)
    return "num_splits: rows are computed whole, got " + std::to_string(options.num_splits);
  // 2^47 bytes is the address space of a process.
  if (score_matrix_bytes(p) >= 0x1p47)
    return "score matrix: must stay below 2^47 bytes (4 * batch * query_heads * query_len * kv_len)";
  return too_large(p, 1, options.threads > 0 ? options.threads : facts.threads);
}

void fill_naive_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  const Geometry geometry(plan.problem);
  plan.block_q = block_rows;
  plan.block_kv = forward_tile.block_kv;
  plan.num_splits = 1;
  plan.work_items = geometry.kv_heads() * ceil_div(geometry.rows(), block_rows);
  plan.threads = threads_for(plan.work_items, facts, options);
  plan.workspace_bytes =
      plan.work_items == 0 ? 0 : static_cast<std::size_t>(Memory(geometry, plan.threads, nullptr).bytes);
}

Status run_naive(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream) {
  return run_in_workspace<NaiveRun>(plan, tensors, workspace);
}

}  // namespace runmax::cpu
