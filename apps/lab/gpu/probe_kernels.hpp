// Launchers of the lab's probe kernels (plain C++): each enqueues on the stream and returns a cudaError_t
// value.
#pragma once

#include <cstdint>

namespace runmax::lab {

// Copies `floats` floats, a multiple of 4; both pointers aligned to 16 bytes.
int launch_copy_probe(const float* from, float* to, std::int64_t floats, int multiprocessors, void* stream);

// Independent FP32 FMA chains in registers. Writes what block 0 took: {cycles, nanoseconds} to `clocks`
// (device memory); `sink` (one float of device memory) keeps the chains alive.
int launch_fma_probe(int rounds, int multiprocessors, float* sink, std::int64_t* clocks, void* stream);

// Floating-point operations of one launch_fma_probe.
double fma_probe_flops(int rounds, int multiprocessors);

int launch_empty_probe(void* stream);

}  // namespace runmax::lab
