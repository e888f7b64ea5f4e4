// A warp's 16 rows of Q as planes, in the order in which mma.sync reads its A operand.
#pragma once

#include <cfloat>
#include <cstdint>

#include "device/planes/work.cuh"
#include "device/tile/planes.cuh"
#include "kernels/forward/mma/arguments.cuh"

namespace runmax::mma_sync {

// A lane's share of 16 rows and 16 channels, in one plane.
struct QueryFragment {
  std::uint32_t of[4];
};

// The planes of the first `kept` steps stay in registers. The others lie in shared memory, where each lane
// reads back what it wrote, so that nobody waits for anybody.
template <int steps, int kept>
struct QueryPlanes {
  QueryFragment hi_reg[kept > 0 ? kept : 1], lo_reg[kept > 0 ? kept : 1];
  uint4* own;  // (warp, step, plane, lane)

  __device__ explicit QueryPlanes(unsigned char* shared)
      : own(reinterpret_cast<uint4*>(shared) + threadIdx.x / 32 * ((steps - kept) * 64) + threadIdx.x % 32) {}
  __device__ QueryFragment hi(int step) const { return step < kept ? hi_reg[step] : load(step, 0); }
  __device__ QueryFragment lo(int step) const { return step < kept ? lo_reg[step] : load(step, 32); }
  __device__ void set(int step, const QueryFragment& hi, const QueryFragment& lo) {
    if (step < kept) {
      hi_reg[step] = hi;
      lo_reg[step] = lo;
    } else {
      own[(step - kept) * 64] = make_uint4(hi.of[0], hi.of[1], hi.of[2], hi.of[3]);
      own[(step - kept) * 64 + 32] = make_uint4(lo.of[0], lo.of[1], lo.of[2], lo.of[3]);
    }
  }

 private:
  __device__ QueryFragment load(int step, int plane) const {
    const uint4 four = own[(step - kept) * 64 + plane];
    return {{four.x, four.y, four.z, four.w}};
  }
};

// One row's pair of neighbouring channels, times scale * log2(e); 0 outside the matrix.
__device__ inline float2 load_pair(const ForwardArguments& args, const float* row, int channel, bool inside,
                                   bool pairs) {
  if (!inside) return make_float2(0.0f, 0.0f);
  float2 x;
  if (pairs && channel + 2 <= args.head_dim) {
    x = *reinterpret_cast<const float2*>(row + channel);
  } else {
    x.x = channel < args.head_dim ? row[channel * args.q.channel_stride] : 0.0f;
    x.y = channel + 1 < args.head_dim ? row[(channel + 1) * args.q.channel_stride] : 0.0f;
  }
  return make_float2(x.x * args.scale_log2, x.y * args.scale_log2);
}

// Splits a warp's rows first_row..first_row + 15 of the work item. Gives the units of the lane's two rows,
// lane / 4 and 8 below, and whether some row of the warp may have to be computed again.
template <int steps, int kept>
__device__ bool split_queries(QueryPlanes<steps, kept>& planes, float (&query_unit)[2],
                              const ForwardArguments& args, const planes::WorkItem& work, int first_row,
                              int lane) {
  const float* q = args.q.head(work.b, work.h);
  const bool pairs = args.q.channel_stride == 1 && args.q.row_stride % 2 == 0 &&
                     reinterpret_cast<std::uintptr_t>(q) % sizeof(float2) == 0;
  const int row_0 = work.first_row + first_row + lane / 4, column = lane % 4 * 2;
  const auto pair = [&](int step, int r, int half) {
    const int i = row_0 + 8 * r;
    return load_pair(args, q + i * args.q.row_stride, 16 * step + 8 * half + column, i < args.query_len,
                     pairs);
  };
  float largest[2] = {};
#pragma unroll 4
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 x = pair(step, r, half);
        if (fabsf(x.x) <= FLT_MAX) largest[r] = fmaxf(largest[r], fabsf(x.x));
        if (fabsf(x.y) <= FLT_MAX) largest[r] = fmaxf(largest[r], fabsf(x.y));
      }
  bool large = false;
  float scale_a[2], scale_b[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int lanes = 1; lanes < 4; lanes *= 2)
      largest[r] = fmaxf(largest[r], __shfl_xor_sync(0xffffffffu, largest[r], lanes));
    const int exponent = max(tile::exponent_above(largest[r]), tile::smallest_exponent);
    large = large || exponent > tile::suspicious_exponent;
    query_unit[r] = tile::Power2(exponent - tile::plane_exponent).times(1.0f);
    const tile::Power2 unit(tile::plane_exponent - exponent);
    scale_a[r] = unit.a;
    scale_b[r] = unit.b;
  }
  // The rows are read again, from L1, rather than kept.
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    QueryFragment hi, lo;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float2 x = pair(step, r, half);
        x = make_float2(x.x * scale_a[r] * scale_b[r], x.y * scale_a[r] * scale_b[r]);
        const __half2 high = __floats2half2_rn(x.x, x.y);
        const float2 back = __half22float2(high);
        const __half2 low = __floats2half2_rn(x.x - back.x, x.y - back.y);
        hi.of[2 * half + r] = *reinterpret_cast<const std::uint32_t*>(&high);
        lo.of[2 * half + r] = *reinterpret_cast<const std::uint32_t*>(&low);
      }
    planes.set(step, hi, lo);
  }
  return __any_sync(0xffffffffu, large) != 0;
}

}  // namespace runmax::mma_sync
