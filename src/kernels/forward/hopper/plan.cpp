// Plan of the hopper forward kernel: tile, splits and workspace. Plain host arithmetic.
#include <algorithm>

#include "kernels/forward/hopper/config.hpp"
#include "kernels/forward/hopper/launch.hpp"
#include "kernels/forward/hopper/workspace.hpp"

namespace runmax::hopper {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr std::int64_t most_splits = 32;

// The time of `splits` parts in units of one key tile of one block: rounds of all multiprocessors, each as
// long as its share of the key tiles and one more for what is done once; then the combine kernel, which moves
// each part of the output twice. One tile takes 3.6 us, in which an H200 moves 11 MB (measured).
double time_of_splits(const Problem& p, std::int64_t blocks, std::int64_t key_tiles,
                      std::int64_t multiprocessors, std::int64_t splits) {
  const auto rounds = static_cast<double>(ceil_div(blocks * splits, multiprocessors));
  const double attending = rounds * static_cast<double>(ceil_div(key_tiles, splits) + 1);
  const double bytes =
      8.0 * static_cast<double>(splits * p.batch * p.query_heads * p.query_len * p.value_dim);
  return splits == 1 ? attending : attending + 1.0 + bytes / 1.1e7;
}

// The fewest splits that come within 3 % of the best: parts of the output are workspace.
std::int64_t choose_splits(const Problem& p, std::int64_t blocks, std::int64_t key_tiles,
                           std::int64_t multiprocessors) {
  const std::int64_t most = std::min(most_splits, key_tiles);
  const auto time = [&](std::int64_t splits) {
    return time_of_splits(p, blocks, key_tiles, multiprocessors, splits);
  };
  double best = time(1);
  for (std::int64_t splits = 2; splits <= most; ++splits) best = std::min(best, time(splits));
  std::int64_t splits = 1;
  while (time(splits) > 1.03 * best) ++splits;
  return splits;
}

}  // namespace

std::optional<std::string> forward_refuses(const Problem& p, const DeviceFacts& facts, const PlanOptions&) {
  if (facts.compute_capability != 90)
    return "needs compute capability 9.0, got " + std::to_string(facts.compute_capability / 10) + "." +
           std::to_string(facts.compute_capability % 10);
  if (p.head_dim > 128 || p.value_dim > 128)
    return "head_dim and value_dim at most 128, got " + std::to_string(p.head_dim) + " and " +
           std::to_string(p.value_dim);
  constexpr std::int64_t longest = std::int64_t{1} << 29;  // sums of positions stay inside 32 bits
  if (p.query_len >= longest || p.kv_len >= longest)
    return "query_len and kv_len below 2^29, got " + std::to_string(p.query_len) + " and " +
           std::to_string(p.kv_len);
  if (p.batch * p.query_heads * ceil_div(p.query_len, 64) >= (std::int64_t{1} << 31) / most_splits)
    return "batch * query_heads * query tiles must be below 2^26";
  if (p.batch * p.kv_heads * std::max<std::int64_t>(1, ceil_div(p.kv_len, block_kv)) >=
      (std::int64_t{1} << 31))
    return "batch * kv_heads * key tiles must be below 2^30";
  return std::nullopt;
}

void forward_plan(Plan& plan, const DeviceFacts& facts, const PlanOptions& options) {
  const Problem& p = plan.problem;
  const ForwardTile& tile = tile_for(p);
  const std::int64_t blocks = p.batch * p.query_heads * ceil_div(p.query_len, tile.block_q());
  const std::int64_t key_tiles = std::max<std::int64_t>(1, ceil_div(p.kv_len, block_kv));
  std::int64_t splits = options.num_splits;
  if (splits == 0 && blocks > 0 && facts.multiprocessors > 0)
    splits = choose_splits(p, blocks, key_tiles, facts.multiprocessors);
  splits = std::clamp<std::int64_t>(splits, 1, std::min(most_splits, key_tiles));
  plan.block_q = tile.block_q();
  plan.block_kv = block_kv;
  plan.threads = tile.threads();
  plan.num_splits = splits;
  plan.work_items = blocks * splits;
  plan.launches = splits > 1 ? 3 : 2;
  plan.workspace_bytes = workspace_parts(p, splits).bytes;
}

const ForwardTile& tile_for(const Problem& problem) {
  return problem.head_dim <= 64 && problem.value_dim <= 64 ? d64 : d128;
}

WorkspaceParts workspace_parts(const Problem& p, std::int64_t splits) {
  const std::int64_t tiles = p.batch * p.kv_heads * ceil_div(p.kv_len, block_kv);
  const std::int64_t rows = splits > 1 ? splits * p.batch * p.query_heads * p.query_len : 0;
  WorkspaceParts parts;
  parts.headers = static_cast<std::size_t>(tiles * tile_bytes(tile_for(p).dim));
  parts.partial_state = parts.headers + static_cast<std::size_t>(tiles) * sizeof(TileHeader);
  parts.partial_out = parts.partial_state + static_cast<std::size_t>(8 * rows);
  parts.bytes = parts.partial_out + static_cast<std::size_t>(4 * rows * p.value_dim);
  return parts;
}

}  // namespace runmax::hopper
