// The two products of a tile, each of three products of planes.
#pragma once

#include <cstdint>

#include "device/mma/descriptor.cuh"
#include "device/planes/softmax.cuh"
#include "device/ptx/wgmma.cuh"
#include "kernels/forward/hopper/shared.cuh"

namespace runmax::hopper {

// Scores of 64 rows and 128 keys: q_lo k_hi + q_hi k_lo + q_hi k_hi, the small products first.
template <ForwardTile config>
__device__ void multiply_scores(float (&s_reg)[64], std::uint64_t q_hi, std::uint64_t q_lo,
                                const OperandPlanes& k) {
  const std::uint64_t k_hi = mma::warp_uniform(mma::k_major_descriptor(k.hi)),
                      k_lo = mma::warp_uniform(mma::k_major_descriptor(k.lo));
  ptx::wgmma_fence();
#pragma unroll
  for (int product = 0; product < 3; ++product) {
    const std::uint64_t a = product == 0 ? q_lo : q_hi, b = product == 1 ? k_lo : k_hi;
#pragma unroll
    for (int step = 0; step < config.dim / 16; ++step)
      ptx::wgmma_m64n128k16_ss(s_reg, mma::advance(a, step / 4 * (config.block_q() * 128) + step % 4 * 32),
                               mma::advance(b, step / 4 * (block_kv * 128) + step % 4 * 32),
                               product + step > 0);
  }
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
}

template <int dim>
__device__ inline void multiply_weights(float (&t)[dim / 2], const std::uint32_t (&a)[4], std::uint64_t b,
                                        bool accumulate) {
  if constexpr (dim == 64) {
    ptx::wgmma_m64n64k16_rs_mn(t, a, b, accumulate);
  } else {
    ptx::wgmma_m64n128k16_rs_mn(t, a, b, accumulate);
  }
}

// The tile's part of the output in fresh accumulators: p_lo v_hi + p_hi v_lo + p_hi v_hi.
template <ForwardTile config>
__device__ void multiply_values(float (&t_reg)[config.dim / 2], const planes::WeightPlanes<block_kv>& p,
                                const OperandPlanes& v) {
  constexpr std::uint32_t column_block = block_kv * 128;
  const std::uint64_t v_hi = mma::warp_uniform(mma::mn_major_descriptor(v.hi, column_block)),
                      v_lo = mma::warp_uniform(mma::mn_major_descriptor(v.lo, column_block));
  ptx::wgmma_fence();
#pragma unroll
  for (int product = 0; product < 3; ++product)
#pragma unroll
    for (int step = 0; step < 8; ++step)
      multiply_weights<config.dim>(t_reg, product == 0 ? p.lo[step] : p.hi[step],
                                   mma::advance(product == 1 ? v_lo : v_hi, step * 2048), product + step > 0);
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
}

}  // namespace runmax::hopper
