// Launch of the hopper forward kernel: split the key tiles, attend, combine if the keys were split. Only
// enqueues.
#include <algorithm>

#include "kernels/forward/hopper/combine.cuh"
#include "kernels/forward/hopper/kernel.cuh"
#include "kernels/forward/hopper/launch.hpp"
#include "kernels/forward/hopper/split.cuh"
#include "kernels/forward/hopper/workspace.hpp"
#include "runtime/launch.cuh"

namespace runmax::hopper {
namespace {

// Under a causal mask, a block that takes a long work item takes a short one next. Where every item has a
// multiprocessor of its own, the longest item is the time whatever else happens.
bool paired(const Problem& p, std::int64_t work_items, std::int64_t multiprocessors) {
  return p.causal != Causal::none && p.window.left < 0 && work_items > multiprocessors;
}

template <int dim>
Status launch(const ForwardArguments& args, std::int64_t multiprocessors, cudaStream_t stream) {
  constexpr ForwardTile tile = tile_of_dim(dim);
  const std::int64_t images = args.batch * args.kv_heads * args.key_tiles;
  if (images > 0) {
    const LaunchShape shape{.blocks = 2 * images, .threads = split_threads};
    if (Status status = launch_kernel("cuda_hopper split_kernel", split_kernel<dim>, shape, stream, args);
        !status.ok())
      return status;
  }
  const LaunchShape shape{.blocks = std::min(args.work_items / args.items_per_turn, multiprocessors),
                          .threads = tile.threads(),
                          .shared_bytes = shared_bytes(tile),
                          .start = images > 0 ? Start::dependent : Start::after_all};
  return launch_kernel("cuda_hopper forward_kernel", forward_kernel<dim>, shape, stream, args);
}

}  // namespace

Status forward_run(const Plan& plan, const Tensors& t, Workspace workspace, Stream opaque_stream) {
  const Problem& p = plan.problem;
  const auto stream = static_cast<cudaStream_t>(opaque_stream);
  const WorkspaceParts parts = workspace_parts(p, plan.num_splits);
  auto* base = static_cast<unsigned char*>(workspace.data);
  if (reinterpret_cast<std::uintptr_t>(base) % 64 != 0)
    return {StatusCode::invalid_argument, "workspace: must be aligned to 64 bytes"};
  int multiprocessors = 0;
  if (Status status = cuda_status(
          cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, plan.device.index),
          "counting multiprocessors");
      !status.ok())
    return status;

  ForwardArguments args{};
  args.q = device_tensor<const float>(t.q);
  args.k = device_tensor<const float>(t.k);
  args.v = device_tensor<const float>(t.v);
  args.o = device_tensor<float>(t.o);
  args.lse = device_tensor<float>(t.lse);
  args.images = base;
  args.headers = reinterpret_cast<TileHeader*>(base + parts.headers);
  args.partial_state = reinterpret_cast<float*>(base + parts.partial_state);
  args.partial_out = reinterpret_cast<float*>(base + parts.partial_out);
  args.batch = p.batch;
  args.query_heads = p.query_heads;
  args.kv_heads = p.kv_heads;
  args.group = p.query_heads / p.kv_heads;
  args.query_len = static_cast<int>(p.query_len);
  args.head_dim = static_cast<int>(p.head_dim);
  args.value_dim = static_cast<int>(p.value_dim);
  args.query_tiles = (p.query_len + plan.block_q - 1) / plan.block_q;
  args.key_tiles = (p.kv_len + block_kv - 1) / block_kv;
  args.splits = plan.num_splits;
  args.items_per_turn = paired(p, plan.work_items, multiprocessors) ? 2 : 1;
  const std::int64_t items_per_head = args.query_tiles * args.splits;
  args.items_per_head = static_cast<std::uint32_t>(items_per_head + items_per_head % args.items_per_turn);
  args.work_items = p.batch * p.query_heads * args.items_per_head;
  args.scale = static_cast<float>(effective_scale(p));
  args.scale_log2 = static_cast<float>(effective_scale(p) * 1.4426950408889634);
  args.keys = visible_keys_of<int>(p);

  Status status = tile_for(p) == d64 ? launch<64>(args, multiprocessors, stream)
                                     : launch<128>(args, multiprocessors, stream);
  if (!status.ok() || plan.num_splits == 1) return status;
  const std::int64_t rows = p.batch * p.query_heads * p.query_len;
  const LaunchShape shape{.blocks = (rows * 32 + combine_threads - 1) / combine_threads,
                          .threads = combine_threads,
                          .start = Start::dependent};
  return launch_kernel("cuda_hopper combine_kernel", combine_kernel, shape, stream, args);
}

}  // namespace runmax::hopper
