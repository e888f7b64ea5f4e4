// Launch of the mma forward kernels: split the key tiles, attend, combine if the keys were split. Only
// enqueues.
#pragma once

#include <string>

#include "kernels/forward/mma/kernel.cuh"
#include "kernels/forward/mma/launch.hpp"
#include "kernels/forward/mma/split.cuh"
#include "kernels/forward/mma/workspace.hpp"
#include "runtime/launch.cuh"

namespace runmax::mma_sync {

template <Form form, int dim>
Status launch_forward(const char* name, const ForwardArguments& args, cudaStream_t stream) {
  constexpr ForwardTile tile = tile_of(form, dim);
  const LaunchShape shape{
      .blocks = args.work_items, .threads = tile.threads(), .shared_bytes = shared_bytes(tile)};
  return launch_kernel(name, forward_kernel<form, dim>, shape, stream, args);
}

template <Form form>
Status launch_for_dim(int dim, const char* name, const ForwardArguments& args, cudaStream_t stream) {
  if (dim == 64) return launch_forward<form, 64>(name, args, stream);
  if constexpr (largest_dim(form) > 128)
    if (dim > 128) return launch_forward<form, 256>(name, args, stream);
  return launch_forward<form, 128>(name, args, stream);
}

template <Form form>
Status run(const Plan& plan, const Tensors& t, Workspace workspace, Stream opaque_stream) {
  const Problem& p = plan.problem;
  const auto stream = static_cast<cudaStream_t>(opaque_stream);
  const WorkspaceParts parts = workspace_parts(p, plan.num_splits);
  auto* base = static_cast<unsigned char*>(workspace.data);
  if (reinterpret_cast<std::uintptr_t>(base) % 64 != 0)
    return {StatusCode::invalid_argument, "workspace: must be aligned to 64 bytes"};

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
  args.work_items = plan.work_items;
  args.scale = static_cast<float>(effective_scale(p));
  args.scale_log2 = static_cast<float>(effective_scale(p) * 1.4426950408889634);
  args.keys = visible_keys_of<int>(p);
  args.key_slots = key_slots(p);
  args.value_slots = value_slots(p);

  const std::string name = plan.kernel;
  if (const std::int64_t tiles = args.batch * args.kv_heads * args.key_tiles; tiles > 0) {
    const LaunchShape shape{.blocks = 2 * tiles, .threads = split_threads};
    if (Status status =
            launch_kernel((name + " split_kernel").c_str(), split_kernel<form>, shape, stream, args);
        !status.ok())
      return status;
  }
  const std::string forward = name + " forward_kernel";
  if (Status status = launch_for_dim<form>(dim_for(p), forward.c_str(), args, stream);
      !status.ok() || plan.num_splits == 1)
    return status;
  const std::int64_t rows = p.batch * p.query_heads * p.query_len;
  const LaunchShape shape{.blocks = (rows * 32 + planes::combine_threads - 1) / planes::combine_threads,
                          .threads = planes::combine_threads};
  return launch_kernel((name + " combine_kernel").c_str(), combine_kernel<form>, shape, stream, args);
}

}  // namespace runmax::mma_sync
