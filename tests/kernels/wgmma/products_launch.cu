#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/mma/descriptor.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tile/swizzle.hpp"
#include "kernels/wgmma/products_launch.hpp"

namespace runmax::kit {
namespace {

constexpr int rows = product_rows, depth = product_depth, steps = depth / 16;
constexpr int a_bytes = rows * depth * 2, largest_b_bytes = depth * 128 * 2;

constexpr bool mn_major(Product product) {
  return product == Product::rs_mn_n32 || product == Product::rs_mn_n64 || product == Product::rs_mn_n128;
}

// Columns of one instruction.
template <Product product>
constexpr int width = product == Product::rs_mn_n32 ? 32 : product_columns(product);

template <Product product>
__device__ void multiply_step(float (&d)[width<product> / 2], const std::uint32_t (&a_reg)[4],
                              std::uint64_t a, std::uint64_t b, bool accumulate) {
  if constexpr (product == Product::ss_n16) ptx::wgmma_m64n16k16_ss(d, a, b, accumulate);
  if constexpr (product == Product::ss_n32) ptx::wgmma_m64n32k16_ss(d, a, b, accumulate);
  if constexpr (product == Product::ss_n64) ptx::wgmma_m64n64k16_ss(d, a, b, accumulate);
  if constexpr (product == Product::ss_n96) ptx::wgmma_m64n96k16_ss(d, a, b, accumulate);
  if constexpr (product == Product::ss_n128) ptx::wgmma_m64n128k16_ss(d, a, b, accumulate);
  if constexpr (product == Product::rs_n128) ptx::wgmma_m64n128k16_rs(d, a_reg, b, accumulate);
  if constexpr (product == Product::rs_mn_n32) ptx::wgmma_m64n32k16_rs_mn(d, a_reg, b, accumulate);
  if constexpr (product == Product::rs_mn_n64) ptx::wgmma_m64n64k16_rs_mn(d, a_reg, b, accumulate);
  if constexpr (product == Product::rs_mn_n128) ptx::wgmma_m64n128k16_rs_mn(d, a_reg, b, accumulate);
}

__device__ std::uint32_t pair(const float* a, int row, int k) {
  const __half2 two = __floats2half2_rn(a[row * depth + k], a[row * depth + k + 1]);
  return *reinterpret_cast<const std::uint32_t*>(&two);
}

template <Product product>
__global__ void __launch_bounds__(128)
    multiply_kernel(const float* a, const std::uint32_t* a_image, const std::uint32_t* b_image, float* out) {
  constexpr int columns = product_columns(product), b_bytes = depth * columns * 2;
  extern __shared__ __align__(1024) unsigned char memory[];
  auto* words = reinterpret_cast<std::uint32_t*>(memory);
  for (int i = static_cast<int>(threadIdx.x); i < a_bytes / 4; i += 128) words[i] = a_image[i];
  for (int i = static_cast<int>(threadIdx.x); i < b_bytes / 4; i += 128) words[a_bytes / 4 + i] = b_image[i];
  ptx::fence_proxy_async_shared();
  __syncthreads();

  const int thread = static_cast<int>(threadIdx.x), row = thread / 32 * 16 + thread % 32 / 4,
            column = thread % 4 * 2;
  std::uint32_t a_reg[steps][4];
#pragma unroll
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int part = 0; part < 4; ++part)
      a_reg[step][part] = pair(a, row + part % 2 * 8, 16 * step + column + part / 2 * 8);

  const std::uint64_t a_descriptor = mma::k_major_descriptor(memory);
  for (int first = 0; first < columns; first += width<product>) {
    float d[width<product> / 2];
    // Half of an image's columns begin 64 bytes into its rows.
    const std::uint64_t b_descriptor =
        mn_major(product) ? mma::mn_major_descriptor(
                                memory + a_bytes + first / 64 * (depth * 128) + first % 64 * 2, depth * 128)
                          : mma::k_major_descriptor(memory + a_bytes);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < steps; ++step)
      multiply_step<product>(
          d, a_reg[step], mma::advance(a_descriptor, step / 4 * (rows * 128) + step % 4 * 32),
          mma::advance(b_descriptor,
                       mn_major(product) ? step * 2048 : step / 4 * (columns * 128) + step % 4 * 32),
          step > 0);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
#pragma unroll
    for (int i = 0; i < width<product> / 2; ++i)
      out[(row + i / 2 % 2 * 8) * columns + first + i / 4 * 8 + column + i % 2] = d[i];
  }
}

template <Product product>
cudaError_t launch(const float* a, const void* a_image, const void* b_image, float* d) {
  constexpr int bytes = a_bytes + largest_b_bytes;
  if (const cudaError_t error =
          cudaFuncSetAttribute(multiply_kernel<product>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      error != cudaSuccess)
    return error;
  multiply_kernel<product><<<1, 128, bytes>>>(a, static_cast<const std::uint32_t*>(a_image),
                                              static_cast<const std::uint32_t*>(b_image), d);
  return cudaGetLastError();
}

cudaError_t launch(Product product, const float* a, const void* a_image, const void* b_image, float* d) {
  switch (product) {
    case Product::ss_n16:
      return launch<Product::ss_n16>(a, a_image, b_image, d);
    case Product::ss_n32:
      return launch<Product::ss_n32>(a, a_image, b_image, d);
    case Product::ss_n64:
      return launch<Product::ss_n64>(a, a_image, b_image, d);
    case Product::ss_n96:
      return launch<Product::ss_n96>(a, a_image, b_image, d);
    case Product::ss_n128:
      return launch<Product::ss_n128>(a, a_image, b_image, d);
    case Product::rs_n128:
      return launch<Product::rs_n128>(a, a_image, b_image, d);
    case Product::rs_mn_n32:
      return launch<Product::rs_mn_n32>(a, a_image, b_image, d);
    case Product::rs_mn_n64:
      return launch<Product::rs_mn_n64>(a, a_image, b_image, d);
    case Product::rs_mn_n128:
      return launch<Product::rs_mn_n128>(a, a_image, b_image, d);
  }
  return cudaErrorInvalidValue;
}

// Images of 64 columns side by side, each `image_rows` rows of 128 bytes.
template <class Element>
std::vector<__half> image_of(int image_rows, int image_columns, Element element) {
  std::vector<__half> image(static_cast<std::size_t>(image_rows * image_columns));
  for (int row = 0; row < image_rows; ++row)
    for (int column = 0; column < image_columns; ++column) {
      const std::uint32_t at =
          static_cast<std::uint32_t>(column / tile::image_columns * image_rows * 128) +
          tile::swizzled_offset(static_cast<std::uint32_t>(row),
                                static_cast<std::uint32_t>(column % tile::image_columns));
      image[at / sizeof(__half)] = __float2half(element(row, column));
    }
  return image;
}

}  // namespace

Multiplied multiply_by(Product product, const std::vector<float>& a, const std::vector<float>& b) {
  const int columns = product_columns(product);
  const auto a_at = [&](int row, int k) { return a[static_cast<std::size_t>(row * depth + k)]; };
  const auto b_at = [&](int k, int n) { return b[static_cast<std::size_t>(k * columns + n)]; };
  const std::vector<__half> a_image = image_of(rows, depth, a_at);
  const std::vector<__half> b_image =
      mn_major(product) ? image_of(depth, columns, b_at)
                        : image_of(columns, depth, [&](int n, int k) { return b_at(k, n); });

  Multiplied result;
  result.d.resize(static_cast<std::size_t>(rows * columns));
  const auto check = [&](cudaError_t error) {
    if (error != cudaSuccess && result.error.empty()) result.error = cudaGetErrorString(error);
  };
  const auto bytes_of = [](const auto& list) { return list.size() * sizeof(list[0]); };
  void *a_device = nullptr, *a_image_device = nullptr, *b_image_device = nullptr, *d_device = nullptr;
  check(cudaMalloc(&a_device, bytes_of(a)));
  check(cudaMalloc(&a_image_device, bytes_of(a_image)));
  check(cudaMalloc(&b_image_device, bytes_of(b_image)));
  check(cudaMalloc(&d_device, bytes_of(result.d)));
  if (result.error.empty()) {
    check(cudaMemcpy(a_device, a.data(), bytes_of(a), cudaMemcpyHostToDevice));
    check(cudaMemcpy(a_image_device, a_image.data(), bytes_of(a_image), cudaMemcpyHostToDevice));
    check(cudaMemcpy(b_image_device, b_image.data(), bytes_of(b_image), cudaMemcpyHostToDevice));
    check(cudaMemset(d_device, 0xff, bytes_of(result.d)));
    check(launch(product, static_cast<const float*>(a_device), a_image_device, b_image_device,
                 static_cast<float*>(d_device)));
    check(cudaMemcpy(result.d.data(), d_device, bytes_of(result.d), cudaMemcpyDeviceToHost));
  }
  for (void* memory : {a_device, a_image_device, b_image_device, d_device}) cudaFree(memory);
  return result;
}

}  // namespace runmax::kit
