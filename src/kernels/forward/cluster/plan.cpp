// Plan of the cluster forward kernel. Plain host arithmetic.
#include <algorithm>
#include <bit>

#include "kernels/forward/cluster/config.hpp"
#include "kernels/forward/cluster/launch.hpp"

namespace runmax::cluster {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// One for each tile of queries.
std::int64_t clusters(const Problem& p) { return p.batch * p.query_heads * ceil_div(p.query_len, block_q); }

// As many clusters of 8 blocks as there are multiprocessors for, but they do not all fit side by side.
bool crowded(const Problem& p) { return clusters(p) == clusters_of_8 + 1; }

// Keys of a warpgroup's tile: the fewest with which one tile for each block of a cluster covers the keys.
// 96 for a cluster of 6.
int group_kv(const Problem& p, const PlanOptions& options) {
  for (const int keys : {16, 32})
    if (p.kv_len <= most_blocks * block_kv(keys)) return keys;
  const bool six = options.num_splits == 0 && crowded(p) && p.head_dim <= 64 && p.value_dim <= 64 &&
                   p.kv_len > (most_blocks - 1) * block_kv(64) && p.kv_len <= 6 * block_kv(96);
  return six ? 96 : 64;
}

std::int64_t blocks_of_cluster(const Problem& p, const PlanOptions& options) {
  if (options.num_splits != 0) return options.num_splits;
  const int keys = group_kv(p, options);
  if (keys == 96) return 6;
  // The planes of 64 keys of more than 64 channels leave no room for a second block on a multiprocessor.
  const std::int64_t most =
      keys == 64 && crowded(p) && std::max(p.head_dim, p.value_dim) > 64 ? most_blocks / 2 : most_blocks;
  std::int64_t blocks = 1;
  while (blocks < most && blocks * block_kv(keys) < p.kv_len) blocks *= 2;
  return blocks;
}

}  // namespace

std::optional<std::string> forward_refuses(const Problem& p, const DeviceFacts& facts,
                                           const PlanOptions& options) {
  if (facts.compute_capability != 90)
    return "needs compute capability 9.0, got " + std::to_string(facts.compute_capability / 10) + "." +
           std::to_string(facts.compute_capability % 10);
  if (p.head_dim > 128 || p.value_dim > 128)
    return "head_dim and value_dim at most 128, got " + std::to_string(p.head_dim) + " and " +
           std::to_string(p.value_dim);
  if (options.num_splits != 0 && (options.num_splits > most_blocks ||
                                  !std::has_single_bit(static_cast<std::uint32_t>(options.num_splits))))
    return "num_splits 1, 2, 4 or " + std::to_string(most_blocks) + ", the blocks of a cluster, got " +
           std::to_string(options.num_splits);
  constexpr std::int64_t longest = std::int64_t{1} << 28;  // sums of positions and tiles stay inside 32 bits
  if (p.query_len >= longest || p.kv_len >= longest)
    return "query_len and kv_len below 2^28, got " + std::to_string(p.query_len) + " and " +
           std::to_string(p.kv_len);
  constexpr std::int64_t most_clusters = (std::int64_t{1} << 31) / most_blocks;
  if (clusters(p) >= most_clusters)
    return "batch * query_heads * query tiles must be below " + std::to_string(most_clusters);
  if (!options.kernel.empty()) return std::nullopt;
  if (p.kv_len > longest_kv)
    return "meant for kv_len up to " + std::to_string(longest_kv) + ", got " + std::to_string(p.kv_len);
  const std::int64_t blocks = clusters(p) * blocks_of_cluster(p, options);
  if (const std::int64_t most = blocks_at_a_time(facts.multiprocessors); blocks > most)
    return "meant for one wave of " + std::to_string(most) + " blocks, got " + std::to_string(blocks);
  return std::nullopt;
}

void forward_plan(Plan& plan, const DeviceFacts&, const PlanOptions& options) {
  const Problem& p = plan.problem;
  plan.block_q = block_q;
  plan.block_kv = block_kv(group_kv(p, options));
  plan.threads = threads;
  plan.num_splits = static_cast<std::int32_t>(blocks_of_cluster(p, options));
  plan.work_items = clusters(p) * plan.num_splits;
  plan.launches = 1;
}

}  // namespace runmax::cluster
