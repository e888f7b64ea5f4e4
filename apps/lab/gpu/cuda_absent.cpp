// Stands in for the GPU parts of the lab in a build without CUDA.
#include "lab/bench.hpp"
#include "lab/faulty_kernels.hpp"
#include "lab/gpu/resources.hpp"

namespace runmax::lab {
namespace {

Status absent() { return {StatusCode::no_device, "cuda: this program was built without CUDA (no nvcc)"}; }

}  // namespace

Result<std::unique_ptr<Bench>> make_cuda_bench(const DeviceFacts&) { return absent(); }

Result<std::vector<lesson::ResourceFigures>> kernel_resources(const DeviceFacts&) { return absent(); }

Status cuda_faulty_online(Fault, const HeadBuffers&, Stream) { return absent(); }

Status cuda_untiled_naive(const HeadBuffers&, const Buffer&, Stream) { return absent(); }

Status cuda_unpadded_online(const HeadBuffers&, Stream) { return absent(); }

}  // namespace runmax::lab
