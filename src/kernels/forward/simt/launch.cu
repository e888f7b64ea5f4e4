// Launch of the simt forward kernel; only enqueues.
#include "kernels/forward/simt/kernel.cuh"
#include "kernels/forward/simt/launch.hpp"
#include "runtime/launch.cuh"

namespace runmax::simt {
namespace {

template <QueryStaging staging, int value_chunk>
Status launch(const ForwardArguments& args, std::int64_t blocks, cudaStream_t stream) {
  const LaunchShape shape{.blocks = blocks,
                          .threads = tile.threads,
                          .shared_bytes = shared_bytes(staging, args.head_dim, value_chunk)};
  return launch_kernel("cuda_simt forward_kernel", forward_kernel<staging, value_chunk>, shape, stream, args);
}

}  // namespace

Status forward_run(const Plan& plan, const Tensors& t, Workspace workspace, Stream opaque_stream) {
  const Problem& p = plan.problem;
  const auto stream = static_cast<cudaStream_t>(opaque_stream);
  int shared_limit = 0;
  if (Status status = cuda_status(
          cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, plan.device.index),
          "reading the shared memory limit");
      !status.ok())
    return status;
  const ForwardConfig config = forward_config(p, shared_limit);

  ForwardArguments args{};
  args.q = device_tensor<const float>(t.q);
  args.k = device_tensor<const float>(t.k);
  args.v = device_tensor<const float>(t.v);
  args.o = device_tensor<float>(t.o);
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
    args.partial_state = static_cast<float*>(workspace.data);
    args.partial_out = args.partial_state + 2 * rows;
  }

  const std::int64_t blocks = args.query_tiles * p.batch * p.query_heads * args.value_chunks * args.splits;
  const bool resident = config.staging == QueryStaging::resident;
  const bool wide = config.value_chunk == value_chunk_wide;
  Status status = resident && wide ? launch<QueryStaging::resident, value_chunk_wide>(args, blocks, stream)
                  : resident       ? launch<QueryStaging::resident, value_chunk_narrow>(args, blocks, stream)
                  : wide           ? launch<QueryStaging::chunked, value_chunk_wide>(args, blocks, stream)
                                   : launch<QueryStaging::chunked, value_chunk_narrow>(args, blocks, stream);
  if (!status.ok() || plan.num_splits == 1) return status;
  const std::int64_t rows = p.batch * p.query_heads * p.query_len;
  const LaunchShape shape{.blocks = (rows * 32 + tile.threads - 1) / tile.threads, .threads = tile.threads};
  return launch_kernel("cuda_simt combine_kernel", combine_kernel, shape, stream, args);
}

}  // namespace runmax::simt
