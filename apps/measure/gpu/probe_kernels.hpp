// Launchers of the probe kernels (plain C++): each enqueues on the stream and returns its error.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace runmax::measure {

// Copies `floats` floats, a multiple of 4; both pointers aligned to 16 bytes.
cudaError_t launch_copy_probe(const float* from, float* to, std::int64_t floats, int multiprocessors,
                              void* stream);

// Independent FP32 FMA chains in registers. Writes what block 0 took: {cycles, nanoseconds} to `clocks`
// (device memory); `sink` (one float of device memory) keeps the chains alive.
cudaError_t launch_fma_probe(int rounds, int multiprocessors, float* sink, std::int64_t* clocks,
                             void* stream);

// Floating-point operations of one launch_fma_probe.
double fma_probe_flops(int rounds, int multiprocessors);

// Reads `floats` floats, a multiple of 4 and all 0, `rounds` times; `sink` is one float of device memory.
cudaError_t launch_read_probe(const float* from, std::int64_t floats, int rounds, int multiprocessors,
                              float* sink, void* stream);

// fp16 products with FP32 accumulators on random data: by mma.sync on any device, by wgmma on sm_90.
cudaError_t launch_mma_probe(int rounds, int multiprocessors, float* sink, void* stream);
double mma_probe_flops(int rounds, int multiprocessors);
cudaError_t launch_wgmma_probe(int rounds, int multiprocessors, float* sink, void* stream);
double wgmma_probe_flops(int rounds, int multiprocessors);

cudaError_t launch_empty_probe(void* stream);

}  // namespace runmax::measure
