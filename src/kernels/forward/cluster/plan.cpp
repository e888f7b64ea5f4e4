// Plan of the cluster forward kernel. Plain host arithmetic.
#include "kernels/forward/cluster/config.hpp"
#include "kernels/forward/cluster/launch.hpp"

namespace runmax::cluster {
namespace {

// One for each tile of queries.
std::int64_t clusters(const Problem& p) {
  return p.batch * p.query_heads * ((p.query_len + tile.block_q() - 1) / tile.block_q());
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
  if (options.num_splits != 0 && options.num_splits != tile.blocks)
    return "num_splits is " + std::to_string(tile.blocks) + ", the blocks of a cluster, got " +
           std::to_string(options.num_splits);
  constexpr std::int64_t most_clusters = (std::int64_t{1} << 31) / tile.blocks;
  if (clusters(p) >= most_clusters)
    return "batch * query_heads * query tiles must be below " + std::to_string(most_clusters);
  if (!options.kernel.empty()) return std::nullopt;
  if (p.kv_len > longest_kv)
    return "meant for kv_len up to " + std::to_string(longest_kv) + ", got " + std::to_string(p.kv_len);
  if (const std::int64_t most = clusters_at_a_time(facts.multiprocessors); clusters(p) > most)
    return "meant for one wave of " + std::to_string(most) + " clusters, got " + std::to_string(clusters(p));
  return std::nullopt;
}

void forward_plan(Plan& plan, const DeviceFacts&, const PlanOptions&) {
  const Problem& p = plan.problem;
  plan.block_q = tile.block_q();
  plan.block_kv = tile.block_kv;
  plan.threads = tile.threads();
  plan.num_splits = tile.blocks;
  plan.work_items = clusters(p) * tile.blocks;
  plan.launches = 1;
}

}  // namespace runmax::cluster
