// Launching the forward kernel with a policy; only enqueues. Each policy's instances are in a file of their
// own.
#pragma once

#include "kernels/forward/simt/kernel.cuh"
#include "runmax/runmax.hpp"
#include "runtime/launch.cuh"

namespace runmax::simt {

// What both policies need; Q, K, V and O, and the policy itself, are the caller's to set. `partials` is
// memory for plan.num_splits > 1.
template <class Policy>
ForwardArguments<Policy> forward_arguments(const Plan& plan, const ForwardConfig& config, const Tensors& t,
                                           void* partials) {
  const Problem& p = plan.problem;
  ForwardArguments<Policy> args{};
  args.lse = device_tensor<float>(t.lse);
  args.batch = p.batch;
  args.query_heads = p.query_heads;
  args.group = p.query_heads / p.kv_heads;
  args.query_len = p.query_len;
  args.head_dim = p.head_dim;
  args.value_dim = p.value_dim;
  args.query_tiles = (p.query_len + tile.block_q - 1) / tile.block_q;
  args.value_chunks = p.value_dim == 0 ? 1 : (p.value_dim + config.value_chunk - 1) / config.value_chunk;
  args.splits = plan.num_splits;
  args.scale = static_cast<float>(effective_scale(p));
  args.keys = visible_keys_of<std::int64_t>(p);
  if (plan.num_splits > 1) {
    const std::int64_t rows = plan.num_splits * p.batch * p.query_heads * p.query_len;
    args.partial_state = static_cast<float*>(partials);
    args.partial_out = args.partial_state + 2 * rows;
  }
  return args;
}

template <class Policy, QueryStaging staging, int value_chunk>
Status launch_one(const ForwardArguments<Policy>& args, cudaStream_t stream) {
  const LaunchShape shape{
      .blocks = args.query_tiles * args.batch * args.query_heads * args.value_chunks * args.splits,
      .threads = tile.threads,
      .shared_bytes = shared_bytes(staging, args.head_dim, value_chunk)};
  return launch_kernel("cuda_simt forward_kernel", forward_kernel<Policy, staging, value_chunk>, shape,
                       stream, args);
}

template <class Policy>
Status launch_forward(const ForwardArguments<Policy>& args, const ForwardConfig& config,
                      cudaStream_t stream) {
  const bool resident = config.staging == QueryStaging::resident;
  const bool wide = config.value_chunk == value_chunk_wide;
  Status status = resident && wide
                      ? launch_one<Policy, QueryStaging::resident, value_chunk_wide>(args, stream)
                  : resident ? launch_one<Policy, QueryStaging::resident, value_chunk_narrow>(args, stream)
                  : wide     ? launch_one<Policy, QueryStaging::chunked, value_chunk_wide>(args, stream)
                             : launch_one<Policy, QueryStaging::chunked, value_chunk_narrow>(args, stream);
  if (!status.ok() || args.splits == 1) return status;
  const std::int64_t rows = args.batch * args.query_heads * args.query_len;
  const LaunchShape shape{.blocks = (rows * 32 + tile.threads - 1) / tile.threads, .threads = tile.threads};
  return launch_kernel("cuda_simt combine_kernel", combine_kernel<Policy>, shape, stream, args);
}

}  // namespace runmax::simt
