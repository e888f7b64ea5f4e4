// The online softmax of a tile: scores to the planes of weights, with integer maxima.
#pragma once

#include <cuda_fp16.h>

#include <cfloat>
#include <cstdint>

#include "device/ptx/warpgroup.cuh"
#include "device/tile/planes.cuh"

namespace runmax::planes {

// What a thread keeps of each of its two rows, 8 apart.
struct RowState {
  float max = -FLT_MAX;     // M: integer, at least every score seen, in log2
  float sum = 0.0f;         // sum of 2^(score - M) over this thread's keys
  float exponent = -1e30f;  // E: the output is held in units of 2^(E - 30)
};

// s = product of planes * unit, a power of two. The clamps keep 0 * inf and -inf * 0 out; both ends are
// beyond any finite score.
__device__ inline float score_unit(float query_unit, float key_unit) {
  return fminf(fmaxf(query_unit * key_unit, FLT_MIN), 0x1p127f);
}

// Hides the scores of keys that the thread's rows do not see. Scores lie as accumulators of the matrix unit
// do: s_reg[4 n + 2 r + c] is row r, key 8 n + column + c of the tile.
template <int half_keys, class Arguments>
__device__ inline void mask_scores(float (&s_reg)[half_keys], const Arguments& args, int first_query,
                                   int first_key, int column) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = min(first_query + 8 * r, args.query_len - 1);
    const int begin = args.keys.first(query) - first_key - column,
              end = args.keys.last(query) - first_key - column;
#pragma unroll
    for (int n = 0; n < half_keys / 4; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        if (8 * n + c < begin || 8 * n + c >= end) s_reg[4 * n + 2 * r + c] = -INFINITY;
  }
}

// Both planes of the weights as the matrix unit's A operand for each step of 16 keys.
template <int keys>
struct WeightPlanes {
  std::uint32_t hi[keys / 16][4], lo[keys / 16][4];
};

// One step of the online softmax on a tile's scores, in log2 with integer maxima: every factor between tiles
// is an exact power of two. Gives the planes of the weights, 2^(score - M) in the unit that the output's
// exponent asks for, and the factors by which the running outputs of the two rows shrink. Both rows go
// together and every reduction runs in several chains: a warp that waits for itself is what this kernel has
// most of. Header: key_unit, tile_exponent, and of a wide tile value_exponent[key] and value_factor[key].
template <bool wide, int keys, class Header>
__device__ inline void weigh(const float (&s_reg)[keys / 2], WeightPlanes<keys>& p, RowState (&rows)[2],
                             float (&shrink)[2], const Header& header, const float (&query_unit)[2],
                             int column) {
  using tile::plane_exponent;
  float unit[2], shift[2], raise[2];
  float tile_max[2][2], tile_reach[2][2];  // max of s, and of s + r_j
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    unit[r] = score_unit(query_unit[r], header.key_unit);
    tile_max[r][0] = tile_max[r][1] = tile_reach[r][0] = tile_reach[r][1] = -INFINITY;
  }
#pragma unroll
  for (int n = 0; n < keys / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        tile_max[r][c] = fmaxf(tile_max[r][c], s_reg[4 * n + 2 * r + c]);
        if constexpr (wide)
          tile_reach[r][c] =
              fmaxf(tile_reach[r][c], fmaf(s_reg[4 * n + 2 * r + c], unit[r],
                                           static_cast<float>(header.value_exponent[8 * n + column + c])));
      }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    tile_max[r][0] = fmaxf(tile_max[r][0], tile_max[r][1]);
    if constexpr (wide) tile_reach[r][0] = fmaxf(tile_reach[r][0], tile_reach[r][1]);
  }
#pragma unroll
  for (int lanes = 1; lanes < 4; lanes *= 2)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      tile_max[r][0] = fmaxf(tile_max[r][0], __shfl_xor_sync(0xffffffffu, tile_max[r][0], lanes));
      if constexpr (wide)
        tile_reach[r][0] = fmaxf(tile_reach[r][0], __shfl_xor_sync(0xffffffffu, tile_reach[r][0], lanes));
    }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    RowState& row = rows[r];
    const float largest = ceilf(tile_max[r][0] * unit[r]);
    const float reach = wide ? ceilf(tile_reach[r][0]) : largest + header.tile_exponent;
    const float new_max = fmaxf(row.max, largest);
    float new_exponent = fmaxf(row.exponent + row.max - new_max, reach - new_max);
    // 2^100 above the unit, weights still fit in FP32; 2^60 below it, what a tile adds is nothing.
    new_exponent = fmaxf(new_exponent, header.tile_exponent - 100.0f);
    raise[r] = fmaxf(header.tile_exponent - new_exponent, -60.0f);
    shift[r] = static_cast<float>(plane_exponent) - new_max + raise[r];
    shrink[r] = ptx::exp2_approx(row.max - new_max + row.exponent - new_exponent);
    row.sum *= ptx::exp2_approx(row.max - new_max);
    row.max = new_max;
    row.exponent = new_exponent;
  }

  float tile_sum[2][2] = {};
#pragma unroll
  for (int n = 0; n < keys / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float weight[2];
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        weight[c] = ptx::exp2_approx(fmaf(s_reg[4 * n + 2 * r + c], unit[r], shift[r]));
        tile_sum[r][c] += weight[c];
        if constexpr (wide) weight[c] *= header.value_factor[8 * n + column + c];
      }
      const __half2 hi = __floats2half2_rn(weight[0], weight[1]);
      const float2 back = __half22float2(hi);
      const __half2 lo = __floats2half2_rn(weight[0] - back.x, weight[1] - back.y);
      p.hi[n / 2][n % 2 * 2 + r] = *reinterpret_cast<const std::uint32_t*>(&hi);
      p.lo[n / 2][n % 2 * 2 + r] = *reinterpret_cast<const std::uint32_t*>(&lo);
    }
#pragma unroll
  for (int r = 0; r < 2; ++r)
    rows[r].sum = fmaf(tile_sum[r][0] + tile_sum[r][1],
                       ptx::exp2_approx(-static_cast<float>(plane_exponent) - raise[r]), rows[r].sum);
}

}  // namespace runmax::planes
