// The one place where the engine's kernels are launched: attributes are set and every error is checked.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "runtime/cuda_status.hpp"

namespace runmax {

// dependent: may start while the kernel before it drains; it waits itself for what that one writes (sm_90).
enum class Start { after_all, dependent };

struct LaunchShape {
  std::int64_t blocks = 0;
  int threads = 0;
  std::int64_t shared_bytes = 0;  // dynamic
  int cluster_blocks = 0;         // blocks of a cluster (sm_90); 0: the kernel knows no clusters
  Start start = Start::after_all;
};

// Enqueues kernel(args). `name` stands in the error: "cuda_simt forward_kernel".
template <class Arguments>
Status launch_kernel(const char* name, void (*kernel)(Arguments), const LaunchShape& shape,
                     cudaStream_t stream, const Arguments& args) {
  const std::string what = std::string("launching ") + name;
  if (Status status = cuda_status(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       static_cast<int>(shape.shared_bytes)),
                                  what);
      !status.ok())
    return status;
  // A cluster's blocks may only come to share multiprocessors if shared memory is cut for them.
  if (shape.cluster_blocks > 0)
    if (Status status =
            cuda_status(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                             cudaSharedmemCarveoutMaxShared),
                        what);
        !status.ok())
      return status;
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  if (shape.cluster_blocks > 0) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(shape.cluster_blocks), 1, 1};
  }
  if (shape.start == Start::dependent) {
    cudaLaunchAttribute& overlap = attributes[config.numAttrs++];
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
  }
  return cuda_status(cudaLaunchKernelEx(&config, kernel, args), what);
}

}  // namespace runmax
