// Plan of the mma forward kernels: tile, splits and workspace. Plain host arithmetic.
#include <algorithm>

#include "kernels/forward/mma/config.hpp"
#include "kernels/forward/mma/launch.hpp"
#include "kernels/forward/mma/workspace.hpp"

namespace runmax::mma_sync {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr std::int64_t most_splits = 32;

// Below this many query rows most of a block is padding, and the images cost more than they save.
constexpr std::int64_t fewest_rows = 32;

// Shared memory that every kernel takes besides its launch's: rows and bounds of threads and warps.
constexpr std::int64_t static_shared_bytes(const ForwardTile& tile) {
  return std::int64_t{8} * tile.threads() + 32 * (tile.warps + tile.feeders);
}

std::string capability_text(std::int32_t capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

std::optional<std::string> refuses(Form form, const Problem& p, const DeviceFacts& facts,
                                   const PlanOptions& options) {
  const int needed = form == Form::m16n8k8 ? 75 : 80;
  if (facts.compute_capability < needed)
    return "needs compute capability " + capability_text(needed) + " or newer, got " +
           capability_text(facts.compute_capability);
  if (p.head_dim > largest_dim(form) || p.value_dim > largest_dim(form))
    return "head_dim and value_dim at most " + std::to_string(largest_dim(form)) + ", got " +
           std::to_string(p.head_dim) + " and " + std::to_string(p.value_dim);
  const ForwardTile tile = tile_of(form, dim_for(p));
  if (const std::int64_t bytes = shared_bytes(tile) + static_shared_bytes(tile);
      bytes > facts.shared_bytes_per_block_optin)
    return "needs " + std::to_string(bytes) + " bytes of shared memory a block for head sizes up to " +
           std::to_string(tile.dim) + ", the device has " +
           std::to_string(facts.shared_bytes_per_block_optin);
  constexpr std::int64_t longest = std::int64_t{1} << 29;  // sums of positions stay inside 32 bits
  if (p.query_len >= longest || p.kv_len >= longest)
    return "query_len and kv_len below 2^29, got " + std::to_string(p.query_len) + " and " +
           std::to_string(p.kv_len);
  if (p.batch * p.query_heads * ceil_div(p.query_len, 16) >= (std::int64_t{1} << 31) / most_splits)
    return "batch * query_heads * query tiles of 16 must be below 2^26";
  if (p.batch * p.kv_heads * std::max<std::int64_t>(1, ceil_div(p.kv_len, block_kv)) >=
      (std::int64_t{1} << 30))
    return "batch * kv_heads * key tiles must be below 2^30";
  if (!options.kernel.empty()) return std::nullopt;
  if (form == Form::m16n8k8 && facts.compute_capability >= 80)
    return "meant for compute capability 7.5, got " + capability_text(facts.compute_capability);
  if (p.query_len < fewest_rows)
    return "meant for query_len from " + std::to_string(fewest_rows) + " on, got " +
           std::to_string(p.query_len);
  return std::nullopt;
}

void fill_plan(Form form, Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  const Problem& p = plan.problem;
  const ForwardTile tile = tile_of(form, dim_for(p));
  const std::int64_t blocks = p.batch * p.query_heads * ceil_div(p.query_len, tile.block_q());
  const std::int64_t key_tiles = std::max<std::int64_t>(1, ceil_div(p.kv_len, block_kv));
  std::int64_t splits = options.num_splits;
  if (splits == 0 && blocks > 0) splits = tile.blocks_per_multiprocessor * facts.multiprocessors / blocks;
  splits = std::clamp<std::int64_t>(splits, 1, std::min(most_splits, key_tiles));
  plan.block_q = tile.block_q();
  plan.block_kv = block_kv;
  plan.threads = tile.threads();
  plan.num_splits = splits;
  plan.work_items = blocks * splits;
  plan.launches = splits > 1 ? 3 : 2;
  plan.workspace_bytes = workspace_parts(p, splits).bytes;
}

int slots_of(std::int64_t channels) {
  return static_cast<int>(std::max<std::int64_t>(1, ceil_div(channels, slot_channels)));
}

}  // namespace

std::optional<std::string> m16n8k16_refuses(const Problem& p, const DeviceFacts& facts,
                                            const PlanOptions& options) {
  return refuses(Form::m16n8k16, p, facts, options);
}
std::optional<std::string> m16n8k8_refuses(const Problem& p, const DeviceFacts& facts,
                                           const PlanOptions& options) {
  return refuses(Form::m16n8k8, p, facts, options);
}
void m16n8k16_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  fill_plan(Form::m16n8k16, plan, facts, options);
}
void m16n8k8_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  fill_plan(Form::m16n8k8, plan, facts, options);
}

int dim_for(const Problem& p) {
  const std::int64_t widest = std::max(p.head_dim, p.value_dim);
  return widest <= 64 ? 64 : widest <= 128 ? 128 : 256;
}
int key_slots(const Problem& p) { return slots_of(p.head_dim); }
int value_slots(const Problem& p) { return slots_of(p.value_dim); }

WorkspaceParts workspace_parts(const Problem& p, std::int64_t splits) {
  const std::int64_t tiles = p.batch * p.kv_heads * ceil_div(p.kv_len, block_kv);
  const std::int64_t rows = splits > 1 ? splits * p.batch * p.query_heads * p.query_len : 0;
  WorkspaceParts parts;
  parts.headers = static_cast<std::size_t>(tiles * (key_slots(p) + value_slots(p)) * slot_bytes);
  parts.partial_state = parts.headers + static_cast<std::size_t>(tiles) * sizeof(TileHeader);
  parts.partial_out = parts.partial_state + static_cast<std::size_t>(8 * rows);
  parts.bytes = parts.partial_out + static_cast<std::size_t>(4 * rows * p.value_dim);
  return parts;
}

}  // namespace runmax::mma_sync
