// Splits key tiles into the images of their planes, which wgmma reads as they are.
#pragma once

#include <cfloat>

#include "device/ptx/warpgroup.cuh"
#include "device/tile/planes.cuh"
#include "device/tile/swizzle.hpp"
#include "kernels/forward/hopper/arguments.cuh"

namespace runmax::hopper {

using tile::exponent_above, tile::exponent_of_zero, tile::plane_exponent, tile::power_of_2, tile::Power2,
    tile::smallest_exponent, tile::split_piece, tile::SplitPiece, tile::suspicious_exponent;

// --- Key tiles
// -----------------------------------------------------------------------------------------------------

inline constexpr int split_threads = 256;

// Largest of all threads' values; `scratch` is one int a warp.
__device__ inline int block_max(int value, int* scratch) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value = max(value, __shfl_xor_sync(0xffffffffu, value, lanes));
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < split_threads / 32; ++warp) value = max(value, scratch[warp]);
  return value;
}

// Whether rows may be loaded as float4s.
__device__ inline bool loads_vectors(const DeviceTensor<const float>& tensor, const float* matrix) {
  return tensor.channel_stride == 1 && tensor.row_stride % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0;
}

// Eight neighbouring channels of one row; 0 outside the matrix.
__device__ inline void load_piece(float (&x)[8], const float* row, std::int64_t channel_stride, int channel,
                                  int channels, bool inside, bool vectors) {
  if (inside && vectors && channel + 8 <= channels) {
    const float4 low = *reinterpret_cast<const float4*>(row + channel);
    const float4 high = *reinterpret_cast<const float4*>(row + channel + 4);
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
    return;
  }
#pragma unroll
  for (int c = 0; c < 8; ++c)
    x[c] = inside && channel + c < channels ? row[(channel + c) * channel_stride] : 0.0f;
}

// The rows of a tile that hold a NaN or inf, in order; their count in `count`.
__device__ inline void list_rows(const int* infinite, std::int32_t& count, std::uint8_t* list) {
  const bool any = __syncthreads_or(infinite[threadIdx.x % block_kv]) != 0;
  if (threadIdx.x != 0) return;
  int rows = 0;
  for (int key = 0; any && key < block_kv; ++key)
    if (infinite[key]) list[rows++] = static_cast<std::uint8_t>(key);
  count = rows;
}

// Rows of one operand of a tile as pieces of 8 channels in registers: piece p of this thread is row
// (p * split_threads + thread) / (dim / 8), so that dim / 8 neighbouring lanes share a row.
template <int dim>
struct OperandRows {
  static constexpr int lanes_per_row = dim / 8;
  static constexpr int pieces = block_kv * dim / 8 / split_threads;
  float x[pieces][8];

  __device__ static int row(int p) {
    return (p * split_threads + static_cast<int>(threadIdx.x)) / lanes_per_row;
  }
  __device__ static int channel() { return static_cast<int>(threadIdx.x) % lanes_per_row * 8; }

  // Splits piece p, scaled, into the planes of the image: rows are keys, in column blocks of 64 channels.
  __device__ void store(int p, unsigned char* image, const Power2& unit, bool infinite) const {
    float scaled[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) scaled[c] = infinite ? 0.0f : unit.times(x[p][c]);
    const SplitPiece planes = split_piece(scaled);
    const std::int64_t at = channel() / 64 * (block_kv * 128) + tile::swizzled_offset(row(p), channel() % 64);
    *reinterpret_cast<uint4*>(image + at) = planes.hi;
    *reinterpret_cast<uint4*>(image + plane_bytes(dim) + at) = planes.lo;
  }

  // Loads, and gives each row's exponent over its finite values and whether it holds anything else.
  __device__ void load(const DeviceTensor<const float>& tensor, const float* matrix, std::int64_t first_key,
                       int kv_len, int channels, int* exponents, int* infinite) {
    const bool vectors = loads_vectors(tensor, matrix);
#pragma unroll
    for (int p = 0; p < pieces; ++p)
      load_piece(x[p], matrix + (first_key + row(p)) * tensor.row_stride, tensor.channel_stride, channel(),
                 channels, first_key + row(p) < kv_len, vectors);
#pragma unroll
    for (int p = 0; p < pieces; ++p) {
      float largest = 0.0f;
      int other = 0;
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        const float size = fabsf(x[p][c]);
        if (size <= FLT_MAX) {
          largest = fmaxf(largest, size);
        } else {
          other = 1;
        }
      }
#pragma unroll
      for (int lanes = lanes_per_row / 2; lanes > 0; lanes /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));
        other |= __shfl_xor_sync(0xffffffffu, other, lanes);
      }
      if (threadIdx.x % lanes_per_row == 0) {
        exponents[row(p)] = exponent_above(largest);
        infinite[row(p)] = other;
      }
    }
  }
};

// K of one tile: one exponent for all of it.
template <int dim>
__device__ void split_keys(const ForwardArguments& args, const float* k, std::int64_t first_key,
                           unsigned char* image, TileHeader& header) {
  __shared__ int exponents[block_kv], infinite[block_kv], scratch[split_threads / 32];
  OperandRows<dim> rows;
  rows.load(args.k, k, first_key, args.keys.kv_len, args.head_dim, exponents, infinite);
  __syncthreads();
  const int exponent = max(block_max(exponents[threadIdx.x % block_kv], scratch), smallest_exponent);
  const Power2 unit(plane_exponent - exponent);
#pragma unroll
  for (int p = 0; p < OperandRows<dim>::pieces; ++p) rows.store(p, image, unit, infinite[rows.row(p)] != 0);
  if (threadIdx.x == 0) {
    header.key_unit = Power2(exponent - plane_exponent).times(1.0f);
    header.large_keys = exponent > suspicious_exponent ? 1 : 0;
  }
  list_rows(infinite, header.listed_keys, header.listed_key);
}

// V of one tile. One exponent for the tile, or one for each key where they differ by more than 2^10.
template <int dim>
__device__ void split_values(const ForwardArguments& args, const float* v, std::int64_t first_key,
                             unsigned char* image, TileHeader& header) {
  __shared__ int exponents[block_kv], infinite[block_kv], scratch[split_threads / 32];
  OperandRows<dim> rows;
  rows.load(args.v, v, first_key, args.keys.kv_len, args.value_dim, exponents, infinite);
  __syncthreads();
  const int own = exponents[threadIdx.x % block_kv];
  const int largest = block_max(own, scratch);
  const bool narrow = __syncthreads_and(own == exponent_of_zero || own >= largest - 10);
#pragma unroll
  for (int p = 0; p < OperandRows<dim>::pieces; ++p) {
    const int key = rows.row(p);
    rows.store(p, image, Power2(plane_exponent - (narrow ? largest : exponents[key])), infinite[key] != 0);
  }
  if (threadIdx.x < block_kv) {
    const int exponent = narrow ? largest : own;
    header.value_exponent[threadIdx.x] = static_cast<std::int16_t>(exponent);
    // A row of zeros, far below the largest row, may have any factor that is finite.
    header.value_factor[threadIdx.x] = Power2(max(exponent - largest, -Power2::largest_exponent)).times(1.0f);
  }
  if (threadIdx.x == 0) {
    header.tile_exponent = static_cast<float>(largest);
    header.wide = narrow ? 0 : 1;
  }
  list_rows(infinite, header.listed_values, header.listed_value);
}

// Two blocks a key tile of a KV head, one for each operand.
template <int dim>
__global__ void __launch_bounds__(split_threads) split_kernel(const __grid_constant__ ForwardArguments args) {
  ptx::launch_dependents();
  const std::int64_t tile = blockIdx.x / 2;
  std::int64_t head = 0, first_key = tile * block_kv;  // head: batch * kv_heads + kv head
  if (tile >= args.key_tiles) {                        // one head needs no division
    head = tile / args.key_tiles;
    first_key = tile % args.key_tiles * block_kv;
  }
  unsigned char* image = args.images + tile * tile_bytes(dim);
  const std::int64_t b = head < args.kv_heads ? 0 : head / args.kv_heads, h = head - b * args.kv_heads;
  if (blockIdx.x % 2 == 0) {
    split_keys<dim>(args, args.k.head(b, h), first_key, image, args.headers[tile]);
  } else {
    split_values<dim>(args, args.v.head(b, h), first_key, image + 2 * plane_bytes(dim), args.headers[tile]);
  }
}

}  // namespace runmax::hopper
