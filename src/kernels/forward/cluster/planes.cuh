// Rows of Q, K and V to fp16 planes in shared memory. Every thread converts in place what it copied itself.
#pragma once

#include <cfloat>
#include <cstdint>

#include "device/ptx/async_copy.cuh"
#include "device/tile/planes.cuh"
#include "device/tile/swizzle.hpp"
#include "kernels/forward/cluster/arguments.cuh"
#include "kernels/forward/cluster/config.hpp"

namespace runmax::cluster {

// A thread takes pieces of 8 channels: 32 bytes of FP32 that become 16 bytes of each plane. Both halves of
// the FP32 piece are copied to where its planes will stand, so no thread waits for another. The halves are 4
// channels of the row's first half and the 4 that lie as far into its second half, so that the copies of
// neighbouring lanes cover whole sectors: the planes hold the channels in this order, which is the same for Q
// and K, and which channel_of undoes for V.
template <int dim>
struct Pieces {
  static constexpr int lanes_per_row = dim / 8;
  static constexpr int rows_per_step = threads / lanes_per_row;
  static_assert(block_q % rows_per_step == 0 && block_kv(16) % rows_per_step == 0, "no step is cut");

  int row, piece;  // of this thread in the first step

  __device__ explicit Pieces(int thread) : row(thread / lanes_per_row), piece(thread % lanes_per_row) {}
};

// The channel that stands at `column`, a multiple of 4, of the planes; the next three follow in order.
template <int dim>
__device__ constexpr int channel_of(int column) {
  return column / 8 * 4 + column / 4 % 2 * (dim / 2);
}

// Where the high plane's piece of a row stands; the low plane's is plane_bytes further.
template <int dim, int group_kv>
__device__ unsigned char* piece_of(Shared<dim, group_kv>& shared, int row, int piece) {
  return shared.memory + piece / 8 * (rows(group_kv) * 128) + tile::swizzled_offset(row, piece % 8 * 8);
}

// The same for matrices whose rows cannot be copied 16 bytes at a time.
template <int dim>
__device__ void copy_rows_singly(int thread, unsigned char* hi, int plane, const float* source,
                                 std::int64_t row_stride, std::int64_t channel_stride, int left, int channels,
                                 int steps) {
  using P = Pieces<dim>;
  const P own(thread);
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
#pragma unroll 1
    for (int c = 0; c < 8; ++c) {
      const int channel = own.piece * 4 + c % 4 + c / 4 * (dim / 2);
      const bool inside = left > 0 && channel < channels;
      ptx::copy_async_4(hi + c / 4 * plane + c % 4 * 4, inside ? source + channel * channel_stride : source,
                        inside ? 4 : 0);
    }
    hi += P::rows_per_step * 128;
    source += P::rows_per_step * row_stride;
    left -= P::rows_per_step;
  }
}

// Starts copying rows [first, first + count) of a matrix to rows from `row` on; 0 outside the matrix.
template <int dim, int group_kv, int row, int count>
__device__ void copy_rows(Shared<dim, group_kv>& shared, int thread, const DeviceTensor<const float>& tensor,
                          const float* matrix, int first, int length, int channels) {
  using P = Pieces<dim>;
  const P own(thread);
  static_assert(row % 8 == 0 && P::rows_per_step % 8 == 0, "a step keeps the place within the swizzle");
  constexpr int plane = Shared<dim, group_kv>::plane_bytes, steps = count / P::rows_per_step;
  unsigned char* hi = piece_of(shared, row + own.row, own.piece);
  const float* source = matrix + (first + own.row) * tensor.row_stride;
  const int left = length - first - own.row;  // rows that exist from here on
  const bool vectors = tensor.channel_stride == 1 && tensor.row_stride % 4 == 0 &&
                       reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0;
  if (__builtin_expect(!vectors, 0)) {
    copy_rows_singly<dim>(thread, hi, plane, source, tensor.row_stride, tensor.channel_stride, left, channels,
                          steps);
  } else {
    const int channel = own.piece * 4;
    const int low = min(max(channels - channel, 0), 4) * 4;
    const int high = min(max(channels - channel - dim / 2, 0), 4) * 4;
    source += channel;
    const int far = high > 0 ? dim / 2 : 0;
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const bool inside = left > step * P::rows_per_step;
      ptx::copy_async_16(hi + step * P::rows_per_step * 128, source, inside ? low : 0);
      ptx::copy_async_16(hi + step * P::rows_per_step * 128 + plane, source + far, inside ? high : 0);
      source += P::rows_per_step * tensor.row_stride;
    }
  }
  ptx::copy_async_commit();
}

// max(|x|, largest) as bits: a NaN is larger than inf, and inf larger than any number.
__device__ inline float larger_size(float largest, float x) {
  float result;
  asm("{\n .reg .f32 size;\n abs.f32 size, %2;\n max.NaN.f32 %0, %1, size;\n}"
      : "=f"(result)
      : "f"(largest), "f"(x));
  return result;
}

// Below it V keeps absolute precision, finer than FP32's smallest number: then one factor scales any row.
inline constexpr int smallest_value_exponent = -112;

// One step of Pieces splits as many rows into planes, each by its own power of two; here `steps` steps from
// row `row` on, side by side. Rows are Q's, then K's, then V's. Returns whether this thread met a row that
// the planes may not hold: with a NaN or inf, or, in Q and K, with a number of 2^40 or more.
template <int row, int steps, int dim, int group_kv>
__device__ __forceinline__ bool split_rows(Shared<dim, group_kv>& shared, int thread, float scale_log2) {
  using P = Pieces<dim>;
  const P own(thread);
  constexpr int first_value = block_q + block_kv(group_kv);
  const auto row_of = [](int step) { return row + step * P::rows_per_step; };
  unsigned char* const hi = piece_of(shared, row + own.row, own.piece);
  unsigned char* const lo = hi + Shared<dim, group_kv>::plane_bytes;
  float x[steps][8], largest[steps];
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int at = step * P::rows_per_step * 128;
    *reinterpret_cast<float4*>(x[step]) = *reinterpret_cast<const float4*>(hi + at);
    *reinterpret_cast<float4*>(x[step] + 4) = *reinterpret_cast<const float4*>(lo + at);
  }
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    if (row_of(step) < block_q) {
#pragma unroll
      for (int c = 0; c < 8; ++c) x[step][c] *= scale_log2;
    }
    float pair[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) pair[c] = larger_size(fabsf(x[step][c]), x[step][c + 4]);
    largest[step] = larger_size(larger_size(pair[0], pair[1]), larger_size(pair[2], pair[3]));
  }
#pragma unroll
  for (int lanes = P::lanes_per_row / 2; lanes > 0; lanes /= 2)
#pragma unroll
    for (int step = 0; step < steps; ++step)
      largest[step] = larger_size(largest[step], __shfl_xor_sync(0xffffffffu, largest[step], lanes));
  bool suspicious = false;
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const bool value = row_of(step) >= first_value;
    const int exponent = max(static_cast<int>(__float_as_uint(largest[step]) >> 23) - 126,
                             value ? smallest_value_exponent : tile::smallest_exponent);
    suspicious = suspicious || exponent > (value ? 128 : tile::suspicious_exponent);
    const float unit = tile::power_of_2(tile::plane_exponent - exponent);
#pragma unroll
    for (int c = 0; c < 8; ++c) x[step][c] *= unit;
    const tile::SplitPiece planes = tile::split_piece(x[step]);
    const int at = step * P::rows_per_step * 128;
    *reinterpret_cast<uint4*>(hi + at) = planes.hi;
    *reinterpret_cast<uint4*>(lo + at) = planes.lo;
    if (own.piece == 0)
      shared.unit[row_of(step) + own.row] =
          value ? static_cast<float>(exponent) : tile::power_of_2(exponent - tile::plane_exponent);
  }
  return suspicious;
}

// All rows from `row` to `end`, at most four steps at a time: what is in flight lives in registers.
template <int row, int end, int dim, int group_kv>
__device__ __forceinline__ bool split_range(Shared<dim, group_kv>& shared, int thread, float scale_log2) {
  constexpr int left = (end - row) / Pieces<dim>::rows_per_step, most = 4, steps = left < most ? left : most;
  bool suspicious = split_rows<row, steps>(shared, thread, scale_log2);
  if constexpr (left > steps)
    suspicious |= split_range<row + steps * Pieces<dim>::rows_per_step, end>(shared, thread, scale_log2);
  return suspicious;
}

}  // namespace runmax::cluster
