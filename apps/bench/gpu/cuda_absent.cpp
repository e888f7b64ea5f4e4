// Stands in for the GPU's bench in a build without CUDA.
#include "bench/gpu/session.hpp"

namespace runmax::bench {

Result<Report> run_gpu_session(const std::vector<Problem>&, const GpuSessionOptions&) {
  return Status(StatusCode::no_device, "cuda: this program was built without CUDA (no nvcc)");
}

}  // namespace runmax::bench
