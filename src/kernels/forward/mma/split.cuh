// Splits key tiles into the images of their planes, in the order in which mma.sync reads them.
#pragma once

#include <cfloat>
#include <cstdint>

#include "device/tile/planes.cuh"
#include "kernels/forward/mma/arguments.cuh"

namespace runmax::mma_sync {

using tile::exponent_above, tile::exponent_of_zero, tile::plane_exponent, tile::Power2,
    tile::smallest_exponent, tile::suspicious_exponent;

// 8 warps: each takes every 8th row of the tile, then every 8th group of 8 columns.
inline constexpr int split_threads = 256;

// What a block knows of the rows of its operand.
struct RowFacts {
  int exponent[block_kv], infinite[block_kv], warp_max[split_threads / 32];
  int largest;  // exponent of the tile
};

// Each row's exponent over its finite values, and whether it holds anything else. Meets the block.
__device__ inline void look_at_rows(RowFacts& facts, const DeviceTensor<const float>& tensor,
                                    const float* matrix, std::int64_t first_key, int kv_len, int channels) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int warp_max = exponent_of_zero;
#pragma unroll 4
  for (int row = warp; row < block_kv; row += split_threads / 32) {
    const float* x = matrix + (first_key + row) * tensor.row_stride;
    float largest = 0.0f;
    bool other = false;
    if (first_key + row < kv_len)
      for (int c = lane; c < channels; c += 32) {
        const float size = fabsf(x[c * tensor.channel_stride]);
        if (size <= FLT_MAX) {
          largest = fmaxf(largest, size);
        } else {
          other = true;
        }
      }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));
    other = __any_sync(0xffffffffu, other) != 0;
    const int exponent = exponent_above(largest);
    warp_max = max(warp_max, exponent);
    if (lane == 0) {
      facts.exponent[row] = exponent;
      facts.infinite[row] = other ? 1 : 0;
    }
  }
  if (lane == 0) facts.warp_max[warp] = warp_max;
  __syncthreads();
  int largest = facts.warp_max[0];
#pragma unroll
  for (int w = 1; w < split_threads / 32; ++w) largest = max(largest, facts.warp_max[w]);
  if (threadIdx.x == 0) facts.largest = largest;
  __syncthreads();
}

// The rows of a tile that hold a NaN or inf, in order; gives their number to every thread.
__device__ inline int list_rows(const RowFacts& facts, std::int32_t& count, std::uint8_t* list) {
  const bool any = __syncthreads_or(facts.infinite[threadIdx.x % block_kv]) != 0;
  if (threadIdx.x == 0) {
    int rows = 0;
    for (int key = 0; any && key < block_kv; ++key)
      if (facts.infinite[key]) list[rows++] = static_cast<std::uint8_t>(key);
    count = rows;
  }
  return any ? 1 : 0;
}

// Both planes of four elements of one column, as a lane of mma.sync holds them.
__device__ inline uint4 split_four(const float (&x)[4]) {
  uint4 planes;
  const __half2 hi0 = __floats2half2_rn(x[0], x[1]), hi1 = __floats2half2_rn(x[2], x[3]);
  const float2 back0 = __half22float2(hi0), back1 = __half22float2(hi1);
  const __half2 lo0 = __floats2half2_rn(x[0] - back0.x, x[1] - back0.y),
                lo1 = __floats2half2_rn(x[2] - back1.x, x[3] - back1.y);
  planes.x = *reinterpret_cast<const std::uint32_t*>(&hi0);
  planes.y = *reinterpret_cast<const std::uint32_t*>(&hi1);
  planes.z = *reinterpret_cast<const std::uint32_t*>(&lo0);
  planes.w = *reinterpret_cast<const std::uint32_t*>(&lo1);
  return planes;
}

// The four depths of a lane, from its first one.
__device__ inline int depth_of(int first, int c) { return first + c % 2 + c / 2 * 8; }

// K of one tile: one exponent for all of it. Columns of the image are keys, its depth is channels.
__device__ inline void split_keys(RowFacts& facts, const ForwardArguments& args, const float* k,
                                  std::int64_t first_key, unsigned char* image, TileHeader& header) {
  look_at_rows(facts, args.k, k, first_key, args.keys.kv_len, args.head_dim);
  const int exponent = max(facts.largest, smallest_exponent);
  const Power2 unit(plane_exponent - exponent);
  constexpr int pieces_per_slot = slot_bytes / 16;
  const int pieces = args.key_slots * pieces_per_slot;
#pragma unroll 2
  for (int piece = static_cast<int>(threadIdx.x); piece < pieces; piece += split_threads) {
    const int slot = piece / pieces_per_slot, lane = piece % 32;
    const int key = tile::fragment_column(piece / 32 % 8, lane);
    const int first = slot * slot_channels + tile::fragment_first_depth(piece % pieces_per_slot / 256, lane);
    const float* row = k + (first_key + key) * args.k.row_stride;
    const bool inside = first_key + key < args.keys.kv_len && facts.infinite[key] == 0;
    float x[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int channel = depth_of(first, c);
      x[c] = inside && channel < args.head_dim ? unit.times(row[channel * args.k.channel_stride]) : 0.0f;
    }
    *reinterpret_cast<uint4*>(image + std::int64_t{16} * piece) = split_four(x);
  }
  const int listed = list_rows(facts, header.listed_keys, header.listed_key);
  if (threadIdx.x == 0) {
    header.key_unit = Power2(exponent - plane_exponent).times(1.0f);
    header.key_flags = listed != 0 || exponent > suspicious_exponent ? is_suspicious : 0;
  }
}

// V of one tile: one exponent for all of it, or one for each key where they differ by more than 2^10. Columns
// of the image are channels, its depth is keys.
__device__ inline void split_values(RowFacts& facts, const ForwardArguments& args, const float* v,
                                    std::int64_t first_key, unsigned char* image, TileHeader& header) {
  look_at_rows(facts, args.v, v, first_key, args.keys.kv_len, args.value_dim);
  const int own = facts.exponent[threadIdx.x % block_kv];
  const int largest = facts.largest;
  const bool narrow = __syncthreads_and(own == exponent_of_zero || own >= largest - 10) != 0;
  constexpr int pieces_per_slot = slot_bytes / 16;
  const int pieces = args.value_slots * pieces_per_slot;
#pragma unroll 2
  for (int piece = static_cast<int>(threadIdx.x); piece < pieces; piece += split_threads) {
    const int slot = piece / pieces_per_slot, lane = piece % 32;
    const int channel = slot * slot_channels + tile::fragment_column(piece / 32 % 8, lane);
    const int first = tile::fragment_first_depth(piece % pieces_per_slot / 256, lane);
    float x[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int key = depth_of(first, c);
      const bool inside =
          first_key + key < args.keys.kv_len && channel < args.value_dim && facts.infinite[key] == 0;
      const Power2 unit(plane_exponent - (narrow ? largest : facts.exponent[key]));
      x[c] = inside ? unit.times(v[(first_key + key) * args.v.row_stride + channel * args.v.channel_stride])
                    : 0.0f;
    }
    *reinterpret_cast<uint4*>(image + std::int64_t{16} * piece) = split_four(x);
  }
  if (threadIdx.x < block_kv) {
    const int exponent = narrow ? largest : own;
    header.value_exponent[threadIdx.x] = static_cast<std::int16_t>(exponent);
    // A row of zeros, far below the largest row, may have any factor that is finite.
    header.value_factor[threadIdx.x] = Power2(max(exponent - largest, -Power2::largest_exponent)).times(1.0f);
  }
  const int listed = list_rows(facts, header.listed_values, header.listed_value);
  if (threadIdx.x == 0) {
    header.tile_exponent = static_cast<float>(largest);
    header.value_flags = (listed != 0 ? is_suspicious : 0) | (narrow ? 0 : is_wide);
  }
}

// Two blocks a key tile of a KV head, one for each operand. Of a form only because each form is compiled for
// architectures of its own.
template <Form>
__global__ void __launch_bounds__(split_threads) split_kernel(const __grid_constant__ ForwardArguments args) {
  __shared__ RowFacts facts;
  const std::int64_t tile = blockIdx.x / 2;
  const std::int64_t head = tile / args.key_tiles;  // batch * kv_heads + kv head
  const std::int64_t first_key = tile % args.key_tiles * block_kv;
  unsigned char* image = args.images + tile * args.slots_per_tile() * slot_bytes;
  const std::int64_t b = head / args.kv_heads, h = head % args.kv_heads;
  if (blockIdx.x % 2 == 0) {
    split_keys(facts, args, args.k.head(b, h), first_key, image, args.headers[tile]);
  } else {
    split_values(facts, args, args.v.head(b, h), first_key, image + args.key_slots * slot_bytes,
                 args.headers[tile]);
  }
}

}  // namespace runmax::mma_sync
