#include "kernels/mma/fragments_launch.hpp"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/ptx/mma_sync.cuh"
#include "device/tile/fragments.hpp"

namespace runmax::kit {
namespace {

constexpr int rows = 16, depth = tile::fragment_depth, columns = tile::fragment_columns;

__device__ std::uint32_t pair(const float* row, int k) {
  const __half2 two = __floats2half2_rn(row[k], row[k + 1]);
  return *reinterpret_cast<const std::uint32_t*>(&two);
}

__global__ void multiply_kernel(bool deep, bool low_plane, const float* a, const unsigned char* image,
                                float* d) {
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  for (int n = 0; n < columns / 8; ++n) {
    float sum[4] = {};
    for (int step = 0; step < depth / 16; ++step) {
      const int k = 16 * step + 2 * t;
      const std::uint32_t fragment[4] = {pair(a + g * depth, k), pair(a + (g + 8) * depth, k),
                                         pair(a + g * depth, k + 8), pair(a + (g + 8) * depth, k + 8)};
      const uint4 planes = *reinterpret_cast<const uint4*>(
          image + tile::fragment_offset(static_cast<unsigned>(n), static_cast<unsigned>(step),
                                        static_cast<unsigned>(lane)));
      const std::uint32_t b0 = low_plane ? planes.z : planes.x, b1 = low_plane ? planes.w : planes.y;
      if (deep) {
#if __CUDA_ARCH__ >= 800
        ptx::mma_m16n8k16(sum, fragment, b0, b1);
#endif
      } else {
        ptx::mma_m16n8k8(sum, fragment[0], fragment[1], b0);
        ptx::mma_m16n8k8(sum, fragment[2], fragment[3], b1);
      }
    }
    for (int r = 0; r < 2; ++r)
      for (int c = 0; c < 2; ++c) d[(g + 8 * r) * columns + 8 * n + 2 * t + c] = sum[2 * r + c];
  }
}

}  // namespace

Product multiply_by(Instruction instruction, const std::vector<float>& a, const std::vector<float>& b,
                    bool low_plane) {
  // The other plane holds what would be seen in every sum.
  std::vector<__half> image(tile::fragment_image_bytes / sizeof(__half), __float2half(1000.0f));
  for (unsigned k = 0; k < depth; ++k)
    for (unsigned n = 0; n < columns; ++n)
      image[tile::fragment_element(low_plane ? tile::Plane::lo : tile::Plane::hi, n, k) / sizeof(__half)] =
          __float2half(b[k * columns + n]);

  Product product;
  product.d.resize(rows * columns);
  const auto check = [&](cudaError_t error) {
    if (error != cudaSuccess && product.error.empty()) product.error = cudaGetErrorString(error);
  };
  float *a_device = nullptr, *d_device = nullptr;
  unsigned char* image_device = nullptr;
  check(cudaMalloc(&a_device, a.size() * sizeof(float)));
  check(cudaMalloc(&image_device, tile::fragment_image_bytes));
  check(cudaMalloc(&d_device, product.d.size() * sizeof(float)));
  if (product.error.empty()) {
    check(cudaMemcpy(a_device, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    check(cudaMemcpy(image_device, image.data(), tile::fragment_image_bytes, cudaMemcpyHostToDevice));
    multiply_kernel<<<1, 32>>>(instruction == Instruction::m16n8k16, low_plane, a_device, image_device,
                               d_device);
    check(cudaGetLastError());
    check(cudaMemcpy(product.d.data(), d_device, product.d.size() * sizeof(float), cudaMemcpyDeviceToHost));
  }
  cudaFree(a_device);
  cudaFree(image_device);
  cudaFree(d_device);
  return product;
}

}  // namespace runmax::kit
