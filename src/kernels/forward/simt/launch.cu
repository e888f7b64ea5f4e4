// Launch of the simt forward kernel: the policy by what the problem asks for.
#include "kernels/forward/simt/launch.cuh"
#include "kernels/forward/simt/launch.hpp"
#include "kernels/forward/simt/launch_options.hpp"
#include "kernels/forward/simt/plain.cuh"

namespace runmax::simt {

Status forward_run(const Plan& plan, const Tensors& t, Workspace workspace, Stream opaque_stream) {
  const auto stream = static_cast<cudaStream_t>(opaque_stream);
  int shared_limit = 0;
  if (Status status = cuda_status(
          cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, plan.device.index),
          "reading the shared memory limit");
      !status.ok())
    return status;
  const ForwardConfig config = forward_config(plan.problem, shared_limit);
  if (needs_options(plan.problem)) return run_with_options(plan, config, t, workspace, opaque_stream);
  ForwardArguments<Plain> args = forward_arguments<Plain>(plan, config, t, workspace.data);
  args.q = device_tensor<const float>(t.q);
  args.k = device_tensor<const float>(t.k);
  args.v = device_tensor<const float>(t.v);
  args.o = device_tensor<float>(t.o);
  return launch_forward(args, config, stream);
}

}  // namespace runmax::simt
