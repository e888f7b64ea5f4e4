// One warpgroup on its keys of a tile: scores, softmax, values.
#pragma once

#include <cuda_fp16.h>
#include <cfloat>
#include <cstdint>

#include "device/mma/descriptor.cuh"
#include "device/ptx/warpgroup.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tile/planes.cuh"
#include "kernels/forward/cluster/arguments.cuh"
#include "kernels/forward/cluster/config.hpp"

namespace runmax::cluster {

template <int group_kv>
__device__ void multiply_step(float (&s)[group_kv / 2], std::uint64_t a, std::uint64_t b, bool accumulate) {
  if constexpr (group_kv == 16) {
    ptx::wgmma_m64n16k16_ss(s, a, b, accumulate);
  } else if constexpr (group_kv == 32) {
    ptx::wgmma_m64n32k16_ss(s, a, b, accumulate);
  } else if constexpr (group_kv == 96) {
    ptx::wgmma_m64n96k16_ss(s, a, b, accumulate);
  } else {
    ptx::wgmma_m64n64k16_ss(s, a, b, accumulate);
  }
}

// What a thread keeps of its rows, r = 0 and 1 (8 apart): columns 8n + column + {0, 1} of its warpgroup's
// outputs, at 4n + 2r.
template <int dim, Cut cut>
struct RunningRows {
  static constexpr int columns = cut == Cut::keys ? dim : dim / groups;
  float max[2] = {-FLT_MAX, -FLT_MAX};   // integer, at least every score seen, in log2
  float sum[2] = {};                     // of 2^(score - max) over this thread's keys
  float exponent[2] = {-1e30f, -1e30f};  // the output is held in units of 2^(exponent - 30)
  float out[columns / 2] = {};

  // Columns 8n + column + {0, 1} of both rows.
  __device__ float4 columns_of(int n) const {
    return make_float4(out[4 * n], out[4 * n + 1], out[4 * n + 2], out[4 * n + 3]);
  }
};

// Folds one tile into the rows: three products of planes for the scores, weights in planes, three for the
// values. Every key row of K and V has its own power of two, every factor between tiles is an exact one.
template <int dim, int group_kv>
__device__ void attend(RunningRows<dim, cut_of(group_kv)>& rows_of, Shared<dim, group_kv>& shared,
                       const ForwardArguments& args, int thread_of_block, int first_query, int first_key,
                       bool edge) {
  constexpr int column_block = rows(group_kv) * 128, plane = Shared<dim, group_kv>::plane_bytes;
  const int thread = thread_of_block % 128, group = thread_of_block / 128;
  const int first_row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
  constexpr Cut cut = cut_of(group_kv);
  constexpr int keys = cut == Cut::keys ? group_kv : block_kv(group_kv);  // of this warpgroup
  const int own_key = cut == Cut::keys ? group * group_kv : 0;            // its first
  const int key_row = block_q + own_key, value_row = key_row + block_kv(group_kv);

  float s_reg[keys / 2];
  {
    const std::uint64_t q = mma::warp_uniform(mma::k_major_descriptor(shared.memory));
    const std::uint64_t k = mma::warp_uniform(mma::k_major_descriptor(shared.memory + key_row * 128));
    ptx::wgmma_fence();
#pragma unroll
    for (int product = 0; product < 3; ++product)
#pragma unroll
      for (int step = 0; step < dim / 16; ++step) {
        const std::uint32_t at = step / 4 * column_block + step % 4 * 32;
        multiply_step<keys>(s_reg, mma::advance(q, at + (product == 0 ? plane : 0)),
                            mma::advance(k, at + (product == 1 ? plane : 0)), product + step > 0);
      }
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
  }

  const float query_unit[2] = {shared.unit[first_row], shared.unit[first_row + 8]};
#pragma unroll
  for (int n = 0; n < keys / 8; ++n) {
    const float2 key_unit = *reinterpret_cast<const float2*>(&shared.unit[key_row + 8 * n + column]);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      s_reg[4 * n + 2 * r] *= query_unit[r] * key_unit.x;
      s_reg[4 * n + 2 * r + 1] *= query_unit[r] * key_unit.y;
    }
  }
  // After the scaling: a unit may underflow to 0, and 0 * -inf is NaN.
  if (edge) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = min(first_query + first_row + 8 * r, args.query_len - 1);
      const int first = first_key + own_key + column;
      const int begin = args.keys.first(query) - first, end = args.keys.last(query) - first;
#pragma unroll
      for (int n = 0; n < keys / 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c)
          if (8 * n + c < begin || 8 * n + c >= end) s_reg[4 * n + 2 * r + c] = -INFINITY;
    }
  }

  float tile_max[2] = {-INFINITY, -INFINITY};
#pragma unroll
  for (int n = 0; n < keys / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      tile_max[r] = fmaxf(tile_max[r], fmaxf(s_reg[4 * n + 2 * r], s_reg[4 * n + 2 * r + 1]));
#pragma unroll
  for (int lanes = 1; lanes < 4; lanes *= 2)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      tile_max[r] = fmaxf(tile_max[r], __shfl_xor_sync(0xffffffffu, tile_max[r], lanes));
  float fall[2];  // of the maximum: 0 or less
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float new_max = fmaxf(rows_of.max[r], ceilf(tile_max[r]));
    fall[r] = rows_of.max[r] - new_max;
    rows_of.sum[r] *= ptx::exp2_approx(fall[r]);
    rows_of.max[r] = new_max;
  }
  // Scores now count from the maximum: beside a large one, the exponents of V would be lost.
  float reach[2] = {-INFINITY, -INFINITY};  // max of s + r_j
#pragma unroll
  for (int n = 0; n < keys / 8; ++n) {
    const float2 value_exponent = *reinterpret_cast<const float2*>(&shared.unit[value_row + 8 * n + column]);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float& first = s_reg[4 * n + 2 * r];
      float& second = s_reg[4 * n + 2 * r + 1];
      first -= rows_of.max[r];
      second -= rows_of.max[r];
      reach[r] = fmaxf(reach[r], fmaxf(first + value_exponent.x, second + value_exponent.y));
    }
  }
#pragma unroll
  for (int lanes = 1; lanes < 4; lanes *= 2)
#pragma unroll
    for (int r = 0; r < 2; ++r) reach[r] = fmaxf(reach[r], __shfl_xor_sync(0xffffffffu, reach[r], lanes));
  float shrink[2], shift[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float new_exponent = fmaxf(rows_of.exponent[r] + fall[r], ceilf(reach[r]));
    shrink[r] = ptx::exp2_approx(fall[r] + (rows_of.exponent[r] - new_exponent));
    shift[r] = static_cast<float>(tile::plane_exponent) - new_exponent;
    rows_of.exponent[r] = new_exponent;
  }

  std::uint32_t p_hi[keys / 16][4], p_lo[keys / 16][4];
#pragma unroll
  for (int n = 0; n < keys / 8; ++n) {
    const float2 value_exponent = *reinterpret_cast<const float2*>(&shared.unit[value_row + 8 * n + column]);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float weight[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const float above = s_reg[4 * n + 2 * r + c];
        rows_of.sum[r] += ptx::exp2_approx(above);
        weight[c] = ptx::exp2_approx(above + ((c == 0 ? value_exponent.x : value_exponent.y) + shift[r]));
      }
      const __half2 hi = __floats2half2_rn(weight[0], weight[1]);
      const float2 back = __half22float2(hi);
      const __half2 lo = __floats2half2_rn(weight[0] - back.x, weight[1] - back.y);
      p_hi[n / 2][n % 2 * 2 + r] = *reinterpret_cast<const std::uint32_t*>(&hi);
      p_lo[n / 2][n % 2 * 2 + r] = *reinterpret_cast<const std::uint32_t*>(&lo);
    }
  }

  // 32 columns at a time: their sums are all that is in registers beside weights and outputs.
#pragma unroll
  for (int part = 0; part < RunningRows<dim, cut>::columns / 32; ++part) {
    const int quarter = part + (cut == Cut::keys ? 0 : group * (dim / groups / 32));
    float t_reg[16];
    const std::uint64_t v = mma::warp_uniform(mma::mn_major_descriptor(
        shared.memory + quarter / 2 * column_block + value_row * 128 + quarter % 2 * 64, column_block));
    ptx::wgmma_fence();
#pragma unroll
    for (int product = 0; product < 3; ++product)
#pragma unroll
      for (int step = 0; step < keys / 16; ++step)
        ptx::wgmma_m64n32k16_rs_mn(t_reg, product == 0 ? p_lo[step] : p_hi[step],
                                   mma::advance(v, step * 2048 + (product == 1 ? plane : 0)),
                                   product + step > 0);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      float& out = rows_of.out[16 * part + n];
      out = fmaf(out, shrink[n / 2 % 2], t_reg[n]);
    }
  }
}

}  // namespace runmax::cluster
