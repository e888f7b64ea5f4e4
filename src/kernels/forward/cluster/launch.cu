// Launch of the cluster forward kernel: one, and it only enqueues.
#include <bit>

#include "kernels/forward/cluster/kernel.cuh"
#include "kernels/forward/cluster/launch.hpp"
#include "runtime/launch.cuh"

namespace runmax::cluster {
namespace {

template <int dim, int group_kv>
Status launch(const ForwardArguments& args, const Plan& plan, cudaStream_t stream) {
  const LaunchShape shape{.blocks = plan.work_items,
                          .threads = threads,
                          .shared_bytes = sizeof(Shared<dim, group_kv>),
                          .cluster_blocks = static_cast<int>(plan.num_splits)};
  return launch_kernel("cuda_cluster forward_kernel", forward_kernel<dim, group_kv>, shape, stream, args);
}

template <int dim>
Status launch(const ForwardArguments& args, const Plan& plan, cudaStream_t stream) {
  switch (plan.block_kv / groups) {
    case 16:
      return launch<dim, 16>(args, plan, stream);
    case 32:
      return launch<dim, 32>(args, plan, stream);
    case 96:
      if constexpr (dim == 64) return launch<dim, 96>(args, plan, stream);
      [[fallthrough]];
    default:
      return launch<dim, 64>(args, plan, stream);
  }
}

}  // namespace

Status forward_run(const Plan& plan, const Tensors& t, Workspace, Stream opaque_stream) {
  const Problem& p = plan.problem;
  const auto stream = static_cast<cudaStream_t>(opaque_stream);
  ForwardArguments args{};
  args.q = device_tensor<const float>(t.q);
  args.k = device_tensor<const float>(t.k);
  args.v = device_tensor<const float>(t.v);
  args.o = device_tensor<float>(t.o);
  args.lse = device_tensor<float>(t.lse);
  args.query_tiles = static_cast<std::uint32_t>((p.query_len + block_q - 1) / block_q);
  args.query_heads = static_cast<std::uint32_t>(p.query_heads);
  args.group = static_cast<std::uint32_t>(p.query_heads / p.kv_heads);
  args.log2_blocks =
      static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint32_t>(plan.num_splits)) - 1);
  args.query_len = static_cast<int>(p.query_len);
  args.head_dim = static_cast<int>(p.head_dim);
  args.value_dim = static_cast<int>(p.value_dim);
  args.scale = static_cast<float>(effective_scale(p));
  args.scale_log2 = static_cast<float>(effective_scale(p) * 1.4426950408889634);
  args.keys = visible_keys_of<int>(p);
  return p.head_dim <= 64 && p.value_dim <= 64 ? launch<64>(args, plan, stream)
                                               : launch<128>(args, plan, stream);
}

}  // namespace runmax::cluster
