// The exponentials themselves, a kernel that looks at every float, and the loop whose cycles are counted.
#include <cuda_runtime.h>

#include <cstring>

#include "bench/cuda_exp2_kernels.hpp"
#include "bench/cycle_count.cuh"
#include "device/ptx/warpgroup.cuh"
#include "device/tile/planes.cuh"

namespace runmax::bench {
namespace {

constexpr float log2_e = 1.44269504f;

// What a function is compared with, in double: CUDA's own exp and exp2 are within 2 ulp of a double, 2^-28 of
// a float's.
enum class Truth { exp2, exp, exp2_of_product, exp2_of_integer };

template <Truth truth>
__device__ double true_value(float x) {
  if constexpr (truth == Truth::exp2) return exp2(static_cast<double>(x));
  if constexpr (truth == Truth::exp) return exp(static_cast<double>(x));
  if constexpr (truth == Truth::exp2_of_product)
    return exp2(static_cast<double>(x) * static_cast<double>(log2_e));
  if constexpr (truth == Truth::exp2_of_integer) return exp2(static_cast<double>(ceilf(x)));
}

struct Ex2Ftz {
  static constexpr Truth truth = Truth::exp2;
  __device__ static float at(float x) { return ptx::exp2_approx(x); }
};
struct Ex2 {
  static constexpr Truth truth = Truth::exp2;
  __device__ static float at(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
};
struct Exp2f {
  static constexpr Truth truth = Truth::exp2;
  __device__ static float at(float x) { return exp2f(x); }
};
struct Expf {
  static constexpr Truth truth = Truth::exp;
  __device__ static float at(float x) { return expf(x); }
};
struct FastExpf {
  static constexpr Truth truth = Truth::exp;
  __device__ static float at(float x) { return __expf(x); }
};
struct Ex2OfProduct {
  static constexpr Truth truth = Truth::exp2_of_product;
  __device__ static float at(float x) { return ptx::exp2_approx(x * log2_e); }
};

// 2^x = 2^n 2^f with n the nearest integer, by multiply-adds alone: (2^f - 1) / f is interpolated at
// Chebyshev's points of [-1/2, 1/2]. 0 below 2^-126.
template <int degree>
struct Polynomial {
  static constexpr Truth truth = Truth::exp2;
  __device__ static float at(float x) {
    constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: an ulp of it is 1
    const float shifted = x + to_integer;
    const float f = x - (shifted - to_integer);
    float y;
    if constexpr (degree == 4) {
      y = fmaf(f, 0.00965671055f, 0.0558382832f);
      y = fmaf(f, y, 0.2402253f);
      y = fmaf(f, y, 0.693136752f);
    } else if constexpr (degree == 5) {
      y = fmaf(f, 0.00133813021f, 0.00966636837f);
      y = fmaf(f, y, 0.0555038117f);
      y = fmaf(f, y, 0.240223497f);
      y = fmaf(f, y, 0.693147182f);
    } else {
      y = fmaf(f, 0.000154531634f, 0.00133908633f);
      y = fmaf(f, y, 0.00961808302f);
      y = fmaf(f, y, 0.0555035695f);
      y = fmaf(f, y, 0.240226507f);
      y = fmaf(f, y, 0.693147182f);
    }
    y = fmaf(f, y, 1.0f);
    y = __int_as_float(__float_as_int(y) + (__float_as_int(shifted) << 23));
    return x < -126.0f ? 0.0f : y;
  }
};

struct Ex2OfInteger {
  static constexpr Truth truth = Truth::exp2_of_integer;
  __device__ static float at(float x) { return ptx::exp2_approx(ceilf(x)); }
};
struct ExponentField {
  static constexpr Truth truth = Truth::exp2_of_integer;
  __device__ static float at(float x) {
    return x <= -127.0f ? 0.0f : tile::power_of_2(static_cast<int>(ceilf(x)));
  }
};

// The loop by itself: what stands beside each exponential below.
struct AdditionAlone {
  static constexpr Truth truth = Truth::exp2;
  __device__ static float at(float x) { return x; }
};

struct Found {
  unsigned long long worst;  // ulp as a float in the upper half, the argument's bits in the lower
  unsigned long long lost;   // the largest truth of an answer of 0, as bits
};

template <class Function>
__global__ void look_at_all(std::uint32_t first, std::uint32_t last, Found* found) {
  unsigned long long worst = 0, lost = 0;
  for (std::uint64_t bits = first + blockIdx.x * blockDim.x + threadIdx.x; bits <= last;
       bits += gridDim.x * blockDim.x) {
    const float x = __uint_as_float(static_cast<std::uint32_t>(bits));
    const double want = true_value<Function::truth>(x);
    const float got = Function::at(x);
    if (got == 0.0f)
      lost = max(lost, static_cast<unsigned long long>(__double_as_longlong(want)));
    else if (want >= 0x1p-126) {
      const double error = fabs(static_cast<double>(got) - want) / scalbn(1.0, ilogb(want) - 23);
      // A NaN's bits are above those of any number.
      worst = max(worst, static_cast<unsigned long long>(__float_as_uint(static_cast<float>(error))) << 32 |
                             static_cast<std::uint32_t>(bits));
    }
  }
  atomicMax(&found->worst, worst);
  atomicMax(&found->lost, lost);
}

constexpr int chains = 8;

// Every result, less 1.5, is the next argument.
template <class Function>
struct Chains {
  float x[chains];
  __device__ explicit Chains(int thread) {
#pragma unroll
    for (int chain = 0; chain < chains; ++chain)
      x[chain] = -1.0f - static_cast<float>(thread + 31 * chain) * 0x1p-12f;
  }
  __device__ void step() {
#pragma unroll
    for (int chain = 0; chain < chains; ++chain) x[chain] = Function::at(x[chain]) - 1.5f;
  }
  __device__ float result() const {
    float sum = 0.0f;
#pragma unroll
    for (int chain = 0; chain < chains; ++chain) sum += x[chain];
    return sum;
  }
};

std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

template <class Function>
cudaError_t price(PricedExponential& row, float lowest, int multiprocessors) {
  // Nearer to 0 every function gives 1. Descending in value is ascending in bits.
  const std::uint32_t first = bits_of(-0x1p-26f),
                      last =
                          bits_of(Function::truth == Truth::exp || Function::truth == Truth::exp2_of_product
                                      ? lowest
                                      : lowest * log2_e);
  row.arguments = last - first + 1;
  const DeviceArray<Found> on_device(1);
  if (on_device.error != cudaSuccess) return on_device.error;
  if (cudaError_t error = cudaMemset(on_device.data, 0, sizeof(Found)); error != cudaSuccess) return error;
  look_at_all<Function><<<multiprocessors * 8, 256>>>(first, last, on_device.data);
  if (cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  Found found;
  if (cudaError_t error = cudaMemcpy(&found, on_device.data, sizeof found, cudaMemcpyDeviceToHost);
      error != cudaSuccess)
    return error;
  const auto worst = static_cast<std::uint32_t>(found.worst >> 32),
             at = static_cast<std::uint32_t>(found.worst);
  float worst_ulp;
  std::memcpy(&worst_ulp, &worst, sizeof worst_ulp);
  row.worst_ulp = worst_ulp;
  std::memcpy(&row.worst_at, &at, sizeof row.worst_at);
  std::memcpy(&row.largest_lost, &found.lost, sizeof row.largest_lost);

  return sample_results_per_cycle<Chains<Function>>(multiprocessors, chains, row.per_cycle);
}

}  // namespace

Prices price_exponentials(float lowest, int multiprocessors) {
  Prices prices;
  cudaError_t error = cudaSuccess;
  const auto add = [&]<class Function>(Function, const char* name, const char* computes,
                                       const char* used_by) {
    if (error != cudaSuccess) return;
    PricedExponential row{name, computes, used_by};
    error = price<Function>(row, lowest, multiprocessors);
    prices.rows.push_back(std::move(row));
  };
  add(Ex2Ftz{}, "ex2.approx.ftz", "2^x", "weights and rescales of hopper, cluster, mma");
  add(Ex2{}, "ex2.approx", "2^x", "");
  add(Exp2f{}, "exp2f", "2^x", "merging of splits");
  add(Expf{}, "expf", "e^x", "simt, the lesson, rows computed again");
  add(FastExpf{}, "__expf", "e^x", "");
  add(Ex2OfProduct{}, "ex2.approx.ftz of s x", "2^(s x)", "");
  add(Polynomial<4>{}, "polynomial of degree 4", "2^x", "");
  add(Polynomial<5>{}, "polynomial of degree 5", "2^x", "");
  add(Polynomial<6>{}, "polynomial of degree 6", "2^x", "");
  add(Ex2OfInteger{}, "ex2.approx.ftz of ceil(x)", "2^ceil(x)", "rescales: maxima are integers");
  add(ExponentField{}, "exponent field of ceil(x)", "2^ceil(x)", "units of planes");
  add(AdditionAlone{}, "the loop's own addition", "", "");
  if (error != cudaSuccess) prices.error = cudaGetErrorString(error);
  return prices;
}

}  // namespace runmax::bench
