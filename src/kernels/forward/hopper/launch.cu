// Launch of the hopper forward kernel: split the key tiles, attend, combine if the keys were split. Only
// enqueues.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "kernels/forward/hopper/kernel.cuh"
#include "kernels/forward/hopper/launch.hpp"
#include "kernels/forward/hopper/workspace.hpp"

namespace runmax::hopper {
namespace {

template <class T>
DeviceTensor<T> device_tensor(const TensorView& view) {
  return {static_cast<T*>(view.data), view.strides[0], view.strides[1], view.strides[2], view.strides[3]};
}

Status launched(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  return {StatusCode::device_error, std::string("cuda_hopper: ") + what + ": " + cudaGetErrorString(error)};
}

// dependent: may start while the kernel before it drains; it waits itself for what that one writes.
enum class Start { after_all, dependent };

template <class Kernel>
Status enqueue(Kernel kernel, const char* what, Start start, std::int64_t blocks, int threads,
               std::int64_t shared, cudaStream_t stream, const ForwardArguments& args) {
  const auto bytes = static_cast<int>(shared);
  if (Status status =
          launched(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), what);
      !status.ok())
    return status;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = start == Start::dependent ? 1 : 0;
  return launched(cudaLaunchKernelEx(&config, kernel, args), what);
}

template <int dim>
Status launch(const ForwardArguments& args, std::int64_t multiprocessors, cudaStream_t stream) {
  constexpr ForwardTile tile = tile_of_dim(dim);
  const std::int64_t images = args.batch * args.kv_heads * args.key_tiles;
  if (images > 0)
    if (Status status = enqueue(split_kernel<dim>, "launching split_kernel", Start::after_all, 2 * images,
                                split_threads, split_shared_bytes(dim), stream, args);
        !status.ok())
      return status;
  return enqueue(forward_kernel<dim>, "launching forward_kernel",
                 images > 0 ? Start::dependent : Start::after_all, std::min(args.work_items, multiprocessors),
                 tile.threads(), shared_bytes(tile), stream, args);
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
  if (Status status = launched(
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
  args.kv_len = static_cast<int>(p.kv_len);
  args.head_dim = static_cast<int>(p.head_dim);
  args.value_dim = static_cast<int>(p.value_dim);
  args.query_tiles = (p.query_len + plan.block_q - 1) / plan.block_q;
  args.key_tiles = (p.kv_len + block_kv - 1) / block_kv;
  args.splits = plan.num_splits;
  args.work_items = plan.work_items;
  args.scale = static_cast<float>(effective_scale(p));
  args.scale_log2 = static_cast<float>(effective_scale(p) * 1.4426950408889634);
  // A window wider than both lengths is unbounded; what is left fits in 32 bits.
  const auto distance = [&](std::int64_t window) {
    return window > p.query_len + p.kv_len ? -1 : static_cast<int>(window);
  };
  args.offset = static_cast<int>(diagonal_offset(p.causal, p.query_len, p.kv_len));
  args.left = distance(p.window.left);
  args.right = p.causal != Causal::none ? 0 : distance(p.window.right);

  Status status = tile_for(p) == d64 ? launch<64>(args, multiprocessors, stream)
                                     : launch<128>(args, multiprocessors, stream);
  if (!status.ok() || plan.num_splits == 1) return status;
  const std::int64_t rows = p.batch * p.query_heads * p.query_len;
  return enqueue(combine_kernel, "launching combine_kernel", Start::dependent,
                 (rows * 32 + combine_threads - 1) / combine_threads, combine_threads, 0, stream, args);
}

}  // namespace runmax::hopper
