// The instances for sm_80 and newer: m16n8k16, slots by cp.async.
#include "kernels/forward/mma/launch.cuh"

namespace runmax::mma_sync {

Status m16n8k16_run(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream stream) {
  return run<Form::m16n8k16>(plan, tensors, workspace, stream);
}

}  // namespace runmax::mma_sync
