// How the matrix unit adds: how many products at once, to how many bits, and what happens to the rest.
#include <cuda_fp16.h>

#include <array>
#include <cmath>
#include <cstdint>

#include "bench/ceilings/ceilings.hpp"
#include "bench/cycle_count.cuh"
#include "device/mma/descriptor.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/mma_sync.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tile/swizzle.hpp"

namespace runmax::bench {
namespace {

constexpr int deepest = 16;

enum class Instruction { mma_m16n8k8, mma_m16n8k16, wgmma_k16 };
constexpr int depth_of(Instruction instruction) { return instruction == Instruction::mma_m16n8k8 ? 8 : 16; }

// c + sum of a[k] b[k] by one instruction.
struct Sum {
  float a[deepest], b[deepest], c;
};

__device__ std::uint32_t pair(const float* x, int k) {
  const __half2 two = __floats2half2_rn(x[k], x[k + 1]);
  return *reinterpret_cast<const std::uint32_t*>(&two);
}

// Every row of A is a, every column of B is b: all elements of the result are the sum.
template <Instruction instruction>
__global__ void __launch_bounds__(128) sum_kernel(Sum sum, float* result) {
  const int k = static_cast<int>(threadIdx.x) % 4 * 2;
  if constexpr (instruction == Instruction::wgmma_k16) {
    __shared__ __align__(1024) unsigned char images[2][64 * 128];
    for (unsigned i = threadIdx.x; i < 64 * deepest; i += 128) {
      const std::uint32_t at = tile::swizzled_offset(i / deepest, i % deepest);
      *reinterpret_cast<__half*>(images[0] + at) = __float2half(sum.a[i % deepest]);
      *reinterpret_cast<__half*>(images[1] + at) = __float2half(sum.b[i % deepest]);
    }
    ptx::fence_proxy_async_shared();
    __syncthreads();
    float d[8];
#pragma unroll
    for (float& one : d) one = sum.c;
    ptx::wgmma_fence();
    ptx::wgmma_m64n16k16_ss(d, mma::k_major_descriptor(images[0]), mma::k_major_descriptor(images[1]), true);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    if (threadIdx.x == 0) *result = d[0];
  } else {
    float d[4] = {sum.c, sum.c, sum.c, sum.c};
    const std::uint32_t a = pair(sum.a, k), b = pair(sum.b, k);
    if constexpr (instruction == Instruction::mma_m16n8k8) {
      ptx::mma_m16n8k8(d, a, a, b);
    } else {
      const std::uint32_t deep_a = pair(sum.a, k + 8), all[4] = {a, a, deep_a, deep_a};
      ptx::mma_m16n8k16(d, all, b, pair(sum.b, k + 8));
    }
    if (threadIdx.x == 0) *result = d[0];
  }
}

// Sums on the device; keeps the first error.
template <Instruction instruction>
struct Adder {
  DeviceArray<float> result{1};
  cudaError_t error = result.error;

  float operator()(const Sum& sum) {
    float value = 0;
    if (error != cudaSuccess) return value;
    sum_kernel<instruction><<<1, 128>>>(sum, result.data);
    error = cudaGetLastError();
    if (error == cudaSuccess) error = cudaMemcpy(&value, result.data, sizeof value, cudaMemcpyDeviceToHost);
    return value;
  }
};

// 1, and `count` products of 2^exponent each at `places`.
Sum one_and(const std::vector<int>& places, int exponent, float times = 1.0f) {
  Sum sum{{}, {}, 1.0f};
  for (const int k : places) {
    sum.a[k] = std::ldexp(times, exponent / 2);
    sum.b[k] = std::ldexp(1.0f, exponent - exponent / 2);
  }
  return sum;
}

constexpr float ulp = 0x1p-23f;

template <Instruction instruction>
cudaError_t measure(const std::string& name, std::vector<Ceiling>& rows) {
  constexpr int depth = depth_of(instruction);
  Adder<instruction> add;
  // Three quarters of an ulp beside 1: to nearest it would be a whole one.
  const float rest = (add(one_and({0}, -24, 1.5f)) - 1.0f) / ulp;
  rows.push_back({name + ": 1 + 3/4 ulp is 1 and so many ulps", "ulp", {static_cast<double>(rest)}});
  // Two halves of an ulp are seen only where they are added to each other before anything is cut off.
  int together = 1;
  while (together < depth && add(one_and({0, together}, -24)) != 1.0f) ++together;
  rows.push_back({name + ": products added at once", "products", {static_cast<double>(together)}});
  // 2^g parts of an ulp, each 2^-g of it, make a whole one if g bits below it are kept.
  int kept = 0;
  for (int bits = 1; (1 << bits) <= together; ++bits) {
    std::vector<int> places;
    for (int k = 0; k < 1 << bits; ++k) places.push_back(k);
    if (add(one_and(places, -23 - bits)) != 1.0f + ulp) break;
    kept = bits;
  }
  rows.push_back({name + ": bits kept below an ulp of the largest", "bits", {static_cast<double>(kept)}});
  // A large product takes as much from a small accumulator.
  Sum reversed = one_and({0}, 0);
  reversed.c = 1.5f * ulp / 2;
  rows.push_back({name + ": a product of 1 onto 3/4 ulp is 1 and so many ulps",
                  "ulp",
                  {static_cast<double>((add(reversed) - 1.0f) / ulp)}});
  return add.error;
}

}  // namespace

cudaError_t measure_accumulation(std::vector<Ceiling>& rows) {
  cudaError_t error = measure<Instruction::mma_m16n8k8>("mma.sync m16n8k8", rows);
  if (error == cudaSuccess) error = measure<Instruction::mma_m16n8k16>("mma.sync m16n8k16", rows);
  if (error == cudaSuccess) error = measure<Instruction::wgmma_k16>("wgmma k16", rows);
  return error;
}

}  // namespace runmax::bench
