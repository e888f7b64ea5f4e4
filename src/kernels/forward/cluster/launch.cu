// Launch of the cluster forward kernel: one, and it only enqueues.
#include <cuda_runtime.h>

#include <string>

#include "kernels/forward/cluster/kernel.cuh"
#include "kernels/forward/cluster/launch.hpp"

namespace runmax::cluster {
namespace {

template <class T>
DeviceTensor<T> device_tensor(const TensorView& view) {
  return {static_cast<T*>(view.data), view.strides[0], view.strides[1], view.strides[2], view.strides[3]};
}

Status launched(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  return {StatusCode::device_error, std::string("cuda_cluster: ") + what + ": " + cudaGetErrorString(error)};
}

template <int dim>
Status launch(const ForwardArguments& args, std::int64_t blocks, cudaStream_t stream) {
  const auto kernel = forward_kernel<dim>;
  if (Status status = launched(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                    static_cast<int>(sizeof(Shared<dim>))),
                               "raising the shared memory limit");
      !status.ok())
    return status;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(tile.blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(tile.threads()));
  config.dynamicSmemBytes = sizeof(Shared<dim>);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return launched(cudaLaunchKernelEx(&config, kernel, args), "launching forward_kernel");
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
  args.query_heads = p.query_heads;
  args.group = p.query_heads / p.kv_heads;
  args.query_tiles = (p.query_len + tile.block_q() - 1) / tile.block_q();
  args.query_len = p.query_len;
  args.kv_len = p.kv_len;
  args.head_dim = static_cast<int>(p.head_dim);
  args.value_dim = static_cast<int>(p.value_dim);
  args.scale = static_cast<float>(effective_scale(p));
  args.offset = diagonal_offset(p.causal, p.query_len, p.kv_len);
  args.left = p.window.left;
  args.right = p.causal != Causal::none ? 0 : p.window.right;
  return p.head_dim <= 64 && p.value_dim <= 64 ? launch<64>(args, plan.work_items, stream)
                                               : launch<128>(args, plan.work_items, stream);
}

}  // namespace runmax::cluster
