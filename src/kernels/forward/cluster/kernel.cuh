// FP32 attention for short heads in one launch: keys split over a cluster, merged through distributed shared
// memory.
#pragma once

#include <cooperative_groups.h>

#include <cstdint>

#include "device/softmax/visible_keys.cuh"
#include "device/tile/tensor.cuh"
#include "kernels/forward/cluster/config.hpp"
#include "runmax/online_softmax.hpp"

namespace runmax::cluster {

struct ForwardArguments {
  DeviceTensor<const float> q, k, v;
  DeviceTensor<float> o, lse;  // lse.data may be null
  std::int64_t query_heads, group, query_tiles, query_len;
  int head_dim, value_dim;
  float scale;
  VisibleKeys<std::int64_t> keys;
};

// Copies `rows` rows of a matrix to shared memory, four channels a thread; 0 outside the matrix.
template <int dim, int rows, int stride>
__device__ void stage(float* staged, const float* matrix, const DeviceTensor<const float>& tensor,
                      std::int64_t first, std::int64_t length, int channels) {
  const bool vectors = tensor.channel_stride == 1 && tensor.row_stride % 4 == 0 && channels % 4 == 0 &&
                       reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0;
#pragma unroll
  for (int piece = threadIdx.x; piece < rows * dim / 4; piece += tile.threads()) {
    const int row = piece / (dim / 4), channel = piece % (dim / 4) * 4;
    const float* source = matrix + (first + row) * tensor.row_stride;
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (first + row < length) {
      if (vectors) {
        if (channel < channels) x = *reinterpret_cast<const float4*>(source + channel);
      } else {
        const auto at = [&](int c) {
          return channel + c < channels ? source[(channel + c) * tensor.channel_stride] : 0.0f;
        };
        x = make_float4(at(0), at(1), at(2), at(3));
      }
    }
    *reinterpret_cast<float4*>(staged + row * stride + channel) = x;
  }
}

template <int dim>
__global__ void __launch_bounds__(tile.threads())
    forward_kernel(const __grid_constant__ ForwardArguments args) {
  namespace cg = cooperative_groups;
  constexpr int rows = tile.rows_per_warp;
  constexpr int channels = dim / 32;  // of the output, per lane: lane, lane + 32, ...
  extern __shared__ float4 raw_shared[];
  auto& shared = *reinterpret_cast<Shared<dim>*>(raw_shared);
  const cg::cluster_group cluster = cg::this_cluster();
  const int rank = static_cast<int>(cluster.block_rank());
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;

  // The last query tiles come first: under a causal mask they are the longest.
  std::int64_t work = blockIdx.x / tile.blocks;
  const std::int64_t first_row = (args.query_tiles - 1 - work % args.query_tiles) * tile.block_q();
  work /= args.query_tiles;
  const std::int64_t h = work % args.query_heads, b = work / args.query_heads;
  const float* k = args.k.head(b, h / args.group);
  const float* v = args.v.head(b, h / args.group);

  // Key tiles that any row sees, cut into one contiguous run for each block of the cluster.
  const std::int64_t last_row = min(first_row + tile.block_q(), args.query_len) - 1;
  const std::int64_t begin = args.keys.first(first_row) / tile.block_kv;
  const std::int64_t end = (args.keys.last(last_row) + tile.block_kv - 1) / tile.block_kv;
  const std::int64_t tiles = max(end - begin, std::int64_t{0});
  const std::int64_t run_begin = begin + tiles * rank / tile.blocks;
  const std::int64_t run_end = begin + tiles * (rank + 1) / tile.blocks;

  stage<dim, tile.block_q(), dim>(shared.q_smem, args.q.head(b, h), args.q, first_row, args.query_len,
                                  args.head_dim);

  // Rows of this warp, and the keys that all of them see.
  const std::int64_t warp_row = first_row + warp * rows;
  const auto clamped = [&](std::int64_t i) { return min(i, args.query_len - 1); };
  const std::int64_t common_begin = args.keys.first(clamped(warp_row + rows - 1));
  const std::int64_t common_end = args.keys.last(clamped(warp_row));
  const float* q_smem = shared.q_smem + warp * rows * dim;
  float* p_smem = shared.p_smem[warp];

  SoftmaxState<float> state[rows];
  float o_reg[rows][channels] = {};
  for (std::int64_t key_tile = run_begin; key_tile < run_end; ++key_tile) {
    const std::int64_t first_key = key_tile * tile.block_kv;
    __syncthreads();
    stage<dim, tile.block_kv, key_stride(dim)>(shared.k_smem, k, args.k, first_key, args.keys.kv_len,
                                               args.head_dim);
    stage<dim, tile.block_kv, dim>(shared.v_smem, v, args.v, first_key, args.keys.kv_len, args.value_dim);
    __syncthreads();

    // Scores of the warp's rows and this lane's key; 64 channels of the key in registers at a time.
    float s_reg[rows] = {};
#pragma unroll 1
    for (int part = 0; part < dim; part += 64) {
      float4 k_reg[16];
#pragma unroll
      for (int c = 0; c < 16; ++c)
        k_reg[c] = *reinterpret_cast<const float4*>(shared.k_smem + lane * key_stride(dim) + part + 4 * c);
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        float partial[4] = {0.0f, 0.0f, 0.0f, 0.0f};  // four short chains
#pragma unroll
        for (int c = 0; c < 16; ++c) {
          const float4 q4 = *reinterpret_cast<const float4*>(q_smem + r * dim + part + 4 * c);
          partial[c % 4] = fmaf(q4.x, k_reg[c].x, partial[c % 4]);
          partial[c % 4] = fmaf(q4.y, k_reg[c].y, partial[c % 4]);
          partial[c % 4] = fmaf(q4.z, k_reg[c].z, partial[c % 4]);
          partial[c % 4] = fmaf(q4.w, k_reg[c].w, partial[c % 4]);
        }
        s_reg[r] += (partial[0] + partial[1]) + (partial[2] + partial[3]);
      }
    }

    const bool edge = first_key < common_begin || first_key + tile.block_kv > common_end;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      s_reg[r] *= args.scale;
      if (edge) {
        const std::int64_t i = clamped(warp_row + r), key = first_key + lane;
        if (key < args.keys.first(i) || key >= args.keys.last(i)) s_reg[r] = -INFINITY;
      }
      float tile_max = s_reg[r];
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2)
        tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, lanes));
      const float rescale = softmax_raise(state[r], tile_max, StandardExp{});
      s_reg[r] = softmax_weight(s_reg[r], state[r].max, StandardExp{});
      state[r].sum += s_reg[r];  // this lane's keys only; the 32 lanes are added after the last tile
#pragma unroll
      for (int c = 0; c < channels; ++c) o_reg[r][c] *= rescale;
    }
    static_assert(rows == 2, "a float2 of weights for each key");
    __syncwarp();
    reinterpret_cast<float2*>(p_smem)[lane] = make_float2(s_reg[0], s_reg[1]);
    __syncwarp();

    // The tile's part of the output starts from zero and is added once.
    float t_reg[rows][channels] = {};
#pragma unroll 8
    for (int key = 0; key < tile.block_kv; ++key) {
      const float2 p2 = reinterpret_cast<const float2*>(p_smem)[key];
      const float p[rows] = {p2.x, p2.y};
      float value[channels];
#pragma unroll
      for (int c = 0; c < channels; ++c) value[c] = shared.v_smem[key * dim + lane + 32 * c];
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        // 0 * NaN is NaN: a key that the row does not see is skipped, not weighted with 0.
        if (edge) {
          const std::int64_t i = clamped(warp_row + r), j = first_key + key;
          if (j < args.keys.first(i) || j >= args.keys.last(i)) continue;
        }
#pragma unroll
        for (int c = 0; c < channels; ++c) t_reg[r][c] = fmaf(p[r], value[c], t_reg[r][c]);
      }
    }
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int c = 0; c < channels; ++c) o_reg[r][c] += t_reg[r][c];
  }

  // Every block puts its share where the others can read it.
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
      state[r].sum += __shfl_xor_sync(0xffffffffu, state[r].sum, lanes);
    const int row = warp * rows + r;
#pragma unroll
    for (int c = 0; c < channels; ++c) shared.out[row * dim + lane + 32 * c] = o_reg[r][c];
    if (lane == 0) {
      shared.max[row] = state[r].max;
      shared.sum[row] = state[r].sum;
    }
  }
  cluster.sync();

  // Each block finishes its share of the rows, a warp a row: the cluster's shares merge pairwise, in a fixed
  // tree.
  constexpr int rows_per_block = tile.block_q() / tile.blocks;
  static_assert(rows_per_block <= tile.warps, "a warp of each block finishes at most one row");
  const int row = rank * rows_per_block + warp;
  if (warp < rows_per_block) {
    SoftmaxState<float> part[tile.blocks];
    float out[tile.blocks][channels];
#pragma unroll
    for (int other = 0; other < tile.blocks; ++other) {
      const Shared<dim>& theirs = *cluster.map_shared_rank(&shared, other);
      part[other] = {theirs.max[row], theirs.sum[row]};
#pragma unroll
      for (int c = 0; c < channels; ++c) out[other][c] = theirs.out[row * dim + lane + 32 * c];
    }
#pragma unroll
    for (int reach = 1; reach < tile.blocks; reach *= 2)
#pragma unroll
      for (int left = 0; left < tile.blocks; left += 2 * reach) {
        const SoftmaxMerge<float> merged = softmax_merge(part[left], part[left + reach], StandardExp{});
        part[left] = merged.state;
#pragma unroll
        for (int c = 0; c < channels; ++c) out[left][c] = merged.output(out[left][c], out[left + reach][c]);
      }
    const std::int64_t i = first_row + row;
    if (i < args.query_len) {
      const float normalizer = softmax_normalizer(part[0]);
#pragma unroll
      for (int c = 0; c < channels; ++c)
        if (lane + 32 * c < args.value_dim)
          args.o.head(b, h)[i * args.o.row_stride + (lane + 32 * c) * args.o.channel_stride] =
              out[0][c] * normalizer;
      if (lane == 0 && args.lse.data) args.lse.head(b, h)[i * args.lse.row_stride] = softmax_lse(part[0]);
    }
  }
  cluster.sync();  // nobody leaves while others read its memory
}

}  // namespace runmax::cluster
