// Launch of the cluster forward kernel: one, and it only enqueues.
#include "kernels/forward/cluster/kernel.cuh"
#include "kernels/forward/cluster/launch.hpp"
#include "runtime/launch.cuh"

namespace runmax::cluster {

Status forward_run(const Plan& plan, const Tensors& t, Workspace, Stream opaque_stream) {
  const Problem& p = plan.problem;
  const auto stream = static_cast<cudaStream_t>(opaque_stream);
  ForwardArguments args{};
  args.q = device_tensor<const float>(t.q);
  args.k = device_tensor<const float>(t.k);
  args.v = device_tensor<const float>(t.v);
  args.o = device_tensor<float>(t.o);
  args.lse = device_tensor<float>(t.lse);
  args.query_heads = p.query_heads;
  args.group = p.query_heads / p.kv_heads;
  args.query_tiles = (p.query_len + tile.block_q() - 1) / tile.block_q();
  args.query_len = p.query_len;
  args.head_dim = static_cast<int>(p.head_dim);
  args.value_dim = static_cast<int>(p.value_dim);
  args.scale = static_cast<float>(effective_scale(p));
  args.keys = visible_keys_of<std::int64_t>(p);
  const bool narrow = p.head_dim <= 64 && p.value_dim <= 64;
  const LaunchShape shape{
      .blocks = plan.work_items,
      .threads = tile.threads(),
      .shared_bytes = static_cast<std::int64_t>(narrow ? sizeof(Shared<64>) : sizeof(Shared<128>)),
      .cluster_blocks = tile.blocks};
  return launch_kernel("cuda_cluster forward_kernel", narrow ? forward_kernel<64> : forward_kernel<128>,
                       shape, stream, args);
}

}  // namespace runmax::cluster
