// The instances for sm_75: m16n8k8, slots through registers.
#include "kernels/forward/mma/launch.cuh"

namespace runmax::mma_sync {

Status m16n8k8_run(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream stream) {
  return run<Form::m16n8k8>(plan, tensors, workspace, stream);
}

}  // namespace runmax::mma_sync
