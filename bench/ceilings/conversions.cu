// How fast FP32 numbers become planes: the conversions by themselves, and a pair of numbers split.
#include <cuda_fp16.h>

#include <cstdint>

#include "bench/ceilings/ceilings.hpp"
#include "bench/cycle_count.cuh"

namespace runmax::bench {
namespace {

constexpr int chains = 8;

__device__ std::uint32_t bits(__half2 pair) { return *reinterpret_cast<const std::uint32_t*>(&pair); }
__device__ __half2 halves(std::uint32_t word) { return *reinterpret_cast<const __half2*>(&word); }

// Chains of words; what a step makes of one is the next.
template <class Step>
struct Words {
  std::uint32_t x[chains];
  __device__ explicit Words(int thread) {
#pragma unroll
    for (int chain = 0; chain < chains; ++chain)
      x[chain] = __float_as_uint(1.0f + static_cast<float>(thread + 31 * chain) * 0x1p-12f);
  }
  __device__ void step() {
#pragma unroll
    for (int chain = 0; chain < chains; ++chain) x[chain] = Step::next(x[chain]);
  }
  __device__ float result() const {
    std::uint32_t all = 0;
#pragma unroll
    for (int chain = 0; chain < chains; ++chain) all ^= x[chain];
    return __uint_as_float(all);
  }
};

struct Pack {
  __device__ static std::uint32_t next(std::uint32_t x) {
    return bits(__floats2half2_rn(__uint_as_float(x), 1.25f));
  }
};
// One logical instruction joins the two results.
struct Unpack {
  __device__ static std::uint32_t next(std::uint32_t x) {
    const float2 both = __half22float2(halves(x));
    return __float_as_uint(both.x) ^ __float_as_uint(both.y);
  }
};
// As in the kernels: six instructions for two numbers, and a logical one that joins the planes.
struct SplitPair {
  __device__ static std::uint32_t next(std::uint32_t x) {
    const float first = __uint_as_float(x), second = 1.2345678f;
    const __half2 hi = __floats2half2_rn(first, second);
    const float2 back = __half22float2(hi);
    const __half2 lo = __floats2half2_rn(first - back.x, second - back.y);
    return bits(hi) ^ bits(lo);
  }
};

template <class Step>
cudaError_t add(int multiprocessors, const char* what, std::vector<Ceiling>& rows) {
  rows.push_back({what, "numbers a cycle and multiprocessor", {}});
  return sample_results_per_cycle<Words<Step>>(multiprocessors, 2 * chains, rows.back().samples);
}

}  // namespace

cudaError_t measure_conversions(int multiprocessors, std::vector<Ceiling>& rows) {
  cudaError_t error = add<Pack>(multiprocessors, "conversion of FP32 to fp16, two at a time", rows);
  if (error == cudaSuccess) error = add<Unpack>(multiprocessors, "conversion of fp16 to FP32", rows);
  if (error == cudaSuccess) error = add<SplitPair>(multiprocessors, "FP32 split into two planes", rows);
  return error;
}

}  // namespace runmax::bench
