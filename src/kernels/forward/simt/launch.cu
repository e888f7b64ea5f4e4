// Launch of the simt forward kernel; only enqueues.
#include <cuda_runtime.h>

#include <string>

#include "kernels/forward/simt/kernel.cuh"
#include "kernels/forward/simt/launch.hpp"

namespace runmax::simt {
namespace {

template <class T>
DeviceTensor<T> device_tensor(const TensorView& view) {
  return {static_cast<T*>(view.data), view.strides[0], view.strides[1], view.strides[2], view.strides[3]};
}

Status launched(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  return {StatusCode::device_error, std::string("cuda_simt: ") + what + ": " + cudaGetErrorString(error)};
}

template <QueryStaging staging, int value_chunk>
Status launch(const ForwardArguments& args, std::int64_t blocks, cudaStream_t stream) {
  const auto bytes = static_cast<int>(shared_bytes(staging, args.head_dim, value_chunk));
  const auto kernel = forward_kernel<staging, value_chunk>;
  if (Status status =
          launched(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                   "raising the shared memory limit");
      !status.ok())
    return status;
  kernel<<<static_cast<unsigned>(blocks), tile.threads, bytes, stream>>>(args);
  return launched(cudaGetLastError(), "launching forward_kernel");
}

}  // namespace

Status forward_run(const Plan& plan, const Tensors& t, Workspace workspace, Stream opaque_stream) {
  const Problem& p = plan.problem;
  const auto stream = static_cast<cudaStream_t>(opaque_stream);
  int shared_limit = 0;
  if (Status status = launched(
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
  args.kv_len = p.kv_len;
  args.head_dim = p.head_dim;
  args.value_dim = p.value_dim;
  args.query_tiles = (p.query_len + tile.block_q - 1) / tile.block_q;
  args.value_chunks = p.value_dim == 0 ? 1 : (p.value_dim + config.value_chunk - 1) / config.value_chunk;
  args.splits = plan.num_splits;
  args.scale = static_cast<float>(effective_scale(p));
  args.offset = diagonal_offset(p.causal, p.query_len, p.kv_len);
  args.left = p.window.left;
  args.right = p.window.right;
  if (p.causal != Causal::none && (args.right < 0 || args.right > 0)) args.right = 0;
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
  const std::int64_t combine_blocks = (rows * 32 + tile.threads - 1) / tile.threads;
  combine_kernel<<<static_cast<unsigned>(combine_blocks), tile.threads, 0, stream>>>(args);
  return launched(cudaGetLastError(), "launching combine_kernel");
}

}  // namespace runmax::simt
