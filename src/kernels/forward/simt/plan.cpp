// Plan of the simt forward kernel: value chunk, staging and splits, from the device's limits. Plain host
// arithmetic.
#include <algorithm>

#include "kernels/forward/simt/config.hpp"
#include "kernels/forward/simt/launch.hpp"

namespace runmax::simt {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Two blocks for each multiprocessor hide each other's barriers; more splits than that only add merging.
constexpr std::int64_t wanted_blocks_per_multiprocessor = 2;
constexpr std::int64_t most_splits = 64;

}  // namespace

std::optional<std::string> forward_refuses(const Problem& problem, const DeviceFacts& facts,
                                           const PlanOptions&) {
  if (facts.compute_capability < 75)
    return "needs compute capability 7.5 or newer, got " + std::to_string(facts.compute_capability / 10) +
           "." + std::to_string(facts.compute_capability % 10);
  const std::int64_t blocks = problem.batch * problem.query_heads *
                              ceil_div(problem.query_len, tile.block_q) *
                              std::max<std::int64_t>(1, ceil_div(problem.value_dim, value_chunk_narrow));
  constexpr std::int64_t most_blocks = (std::int64_t{1} << 31) / most_splits;
  if (blocks >= most_blocks)
    return "needs fewer than " + std::to_string(most_blocks) + " blocks, got " + std::to_string(blocks);
  return std::nullopt;
}

void forward_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  const Problem& p = plan.problem;
  const ForwardConfig config = forward_config(p, facts.shared_bytes_per_block_optin);
  const std::int64_t rows = p.batch * p.query_heads;
  const std::int64_t blocks = rows * ceil_div(p.query_len, tile.block_q) *
                              std::max<std::int64_t>(1, ceil_div(p.value_dim, config.value_chunk));
  const std::int64_t key_tiles = std::max<std::int64_t>(1, ceil_div(p.kv_len, tile.block_kv));
  std::int64_t splits = options.num_splits;
  // Splits depend on how many sequences there are, and the order of summation on them.
  if (splits == 0 && blocks > 0 && !p.batch_invariant)
    splits = std::min(most_splits, wanted_blocks_per_multiprocessor * facts.multiprocessors / blocks);
  splits = std::clamp<std::int64_t>(splits, 1, std::min(most_splits, key_tiles));

  plan.block_q = tile.block_q;
  plan.block_kv = tile.block_kv;
  plan.threads = tile.threads;
  plan.num_splits = splits;
  plan.work_items = blocks * splits;
  const std::int64_t range_launches = p.varlen.empty() ? 0 : ceil_div(p.batch, ranges_a_launch);
  plan.launches = static_cast<std::int32_t>((splits > 1 ? 2 : 1) + range_launches);
  const WorkspaceParts parts = workspace_parts(p, splits);
  plan.workspace_bytes = static_cast<std::size_t>(parts.range_bytes + parts.partial_bytes);
}

bool needs_options(const Problem& p) {
  return p.dtype != DType::f32 || p.softcap != 0 || p.mask || p.bias || p.alibi || p.sink || p.dropout != 0 ||
         !p.varlen.empty() || p.page_size > 0 || p.seqused;
}

WorkspaceParts workspace_parts(const Problem& p, std::int64_t splits) {
  WorkspaceParts parts;
  // Four 64-bit numbers a sequence; what follows is aligned as well.
  if (!p.varlen.empty()) parts.range_bytes = 32 * p.batch;
  // A partial result per split: the output, and max and sum of each row.
  if (splits > 1)
    parts.partial_bytes = 4 * splits * p.batch * p.query_heads * p.query_len * (p.value_dim + 2);
  return parts;
}

ForwardConfig forward_config(const Problem& problem, std::int64_t shared_bytes_per_block) {
  for (const ForwardConfig config : {ForwardConfig{QueryStaging::resident, value_chunk_wide},
                                     ForwardConfig{QueryStaging::chunked, value_chunk_wide},
                                     ForwardConfig{QueryStaging::resident, value_chunk_narrow}}) {
    if (config.value_chunk == value_chunk_wide && problem.value_dim <= value_chunk_narrow) continue;
    // Q stays resident only while at least two blocks fit on a multiprocessor of the size of one block's
    // limit.
    if (config.staging == QueryStaging::resident && problem.head_dim > 128) continue;
    if (shared_bytes(config.staging, problem.head_dim, config.value_chunk) <= shared_bytes_per_block)
      return config;
  }
  return {QueryStaging::chunked, value_chunk_narrow};
}

}  // namespace runmax::simt
