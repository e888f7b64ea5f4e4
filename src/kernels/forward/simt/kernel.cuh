// FP32 attention by FMA, tile by tile, for any shape: the plain kernel that every other one is compared with.
//
// What a problem asks for beyond causality and windows comes in as a policy: Plain (plain.cuh) has nothing of
// it, WithOptions (options.cuh) all of it, as run-time fields. A policy says which sequence a batch element
// is, where its rows lie, what a score becomes and whether its key is seen, and how a row ends.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/softmax/visible_keys.cuh"
#include "device/tile/tensor.cuh"
#include "kernels/forward/simt/config.hpp"
#include "runmax/online_softmax.hpp"

namespace runmax::simt {

template <class Policy>
struct ForwardArguments {
  typename Policy::Input q, k, v;
  typename Policy::Output o;
  DeviceTensor<float> lse;  // lse.data may be null
  float* partial_out;    // (split, batch, head, row, value_dim), unnormalised; null when there is one split
  float* partial_state;  // (split, batch, head, row, 2): max, sum
  std::int64_t batch, query_heads, group, query_len, head_dim, value_dim;
  std::int64_t query_tiles, value_chunks, splits;
  float scale;
  VisibleKeys<std::int64_t> keys;  // of the longest sequence
  Policy policy;
};

// One batch element: where its rows lie in the tensors, and what they see. Its kv_len is keys.kv_len.
struct Sequence {
  std::int64_t batch;  // of the tensors
  std::int64_t query_start, kv_start;
  std::int64_t query_len;
  VisibleKeys<std::int64_t> keys;
  bool broken;  // its length is no length: nothing is read, and every row is NaN
};

// Stages a (block rows) x (dim_chunk channels) piece of a matrix, transposed, as tile[channel][slot(row)];
// rows and channels beyond the matrix are 0. Neighbouring lanes take neighbouring rows, so the stores meet
// few conflicts.
template <class Rows, class Slot>
__device__ void stage_transposed(float* staged, const Rows& matrix, std::int64_t first_row, std::int64_t rows,
                                 std::int64_t first_channel, std::int64_t channels, Slot slot) {
  static_assert(tile.block_q == tile.block_kv, "one staging loop serves Q and K");
  for (int piece = threadIdx.x; piece < tile.block_q * tile.dim_chunk / 4; piece += tile.threads) {
    const int row = piece % tile.block_q;
    const int channel = piece / tile.block_q * 4;
    const std::int64_t i = first_row + row;
    float values[4] = {};
    if (i < rows) {
      const auto source = matrix.row(i);
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (first_channel + channel + c < channels) values[c] = source[first_channel + channel + c];
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) staged[(channel + c) * tile.block_q + slot(row)] = values[c];
  }
}

// The key that a thread column's c-th score belongs to: keys of one thread lie 16 apart, so that the
// transposed weights are stored without bank conflicts.
__device__ inline int key_of(int thread_column, int c) { return thread_column + 16 * c; }
__device__ inline int slot_of_key(int key) { return key % 16 * 4 + key / 16; }

// What is the same for all threads of a block.
template <class Policy>
struct BlockFacts {
  Sequence sequence;
  typename Policy::QueryRows q;
  typename Policy::KeyRows k, v;
  typename Policy::Scoring scoring;
};

// Where it is held: in registers if it is little, in shared memory if options make it much.
template <class Policy, bool much>
class FactsOfBlock {
 public:
  template <class Make>
  __device__ explicit FactsOfBlock(Make make) : facts_(make()) {}
  __device__ const BlockFacts<Policy>& get() const { return facts_; }

 private:
  BlockFacts<Policy> facts_;
};
template <class Policy>
class FactsOfBlock<Policy, true> {
 public:
  template <class Make>
  __device__ explicit FactsOfBlock(Make make) {
    if (threadIdx.x == 0) *place() = make();
    __syncthreads();
  }
  __device__ const BlockFacts<Policy>& get() const { return *place(); }

 private:
  __device__ static BlockFacts<Policy>* place() {
    __shared__ __align__(16) unsigned char bytes[sizeof(BlockFacts<Policy>)];
    return reinterpret_cast<BlockFacts<Policy>*>(bytes);
  }
};

template <class Policy, QueryStaging staging, int value_chunk>
__global__ void __launch_bounds__(tile.threads, least_blocks(value_chunk))
    forward_kernel(const ForwardArguments<Policy> args) {
  constexpr int outputs = value_chunk / 16;           // per thread and row, in groups of 4 neighbours
  constexpr bool changes = Policy::Scoring::changes;  // scores, weights, or which keys are seen
  extern __shared__ float4 shared[];
  float* q_smem = reinterpret_cast<float*>(shared);  // (channels, block_q)
  float* k_smem = q_smem + (staging == QueryStaging::resident ? padded_dim(args.head_dim) : tile.dim_chunk) *
                               tile.block_q;                // (dim_chunk, block_kv), keys in slot order
  float* p_smem = k_smem + tile.dim_chunk * tile.block_kv;  // (block_kv, block_q + 4)
  float* v_smem = p_smem + tile.block_kv * weights_stride;  // (block_kv, value_chunk)

  // Which piece of the work this block is. Query tiles vary slowest: the last, longest ones of a causal
  // problem start first.
  std::int64_t work = blockIdx.x;
  const std::int64_t chunk = work % args.value_chunks;
  work /= args.value_chunks;
  const std::int64_t split = work % args.splits;
  work /= args.splits;
  const std::int64_t h = work % args.query_heads;
  work /= args.query_heads;
  const std::int64_t b = work % args.batch;
  const std::int64_t query_tile = args.query_tiles - 1 - work / args.batch;

  const auto facts_of = [&] {
    const Sequence sequence = args.policy.sequence(args, b);
    return BlockFacts<Policy>{sequence, args.policy.query_rows(args.q, sequence, h),
                              args.policy.key_rows(args.k, sequence, b, h / args.group),
                              args.policy.key_rows(args.v, sequence, b, h / args.group),
                              args.policy.scoring(args, sequence, b, h)};
  };
  const FactsOfBlock<Policy, changes> held(facts_of);
  const BlockFacts<Policy>& facts = held.get();
  const VisibleKeys<std::int64_t>& keys = facts.sequence.keys;
  const std::int64_t query_len = facts.sequence.query_len;
  const std::int64_t first_row = query_tile * tile.block_q;
  if (first_row >= query_len) return;  // of the longest sequence, not of this one
  const int thread_row = threadIdx.x / 16, thread_column = threadIdx.x % 16;

  std::int64_t row_begin[4], row_end[4];
  SoftmaxState<float> state[4];
  float o_reg[4][outputs] = {};
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const std::int64_t i = first_row + 4 * thread_row + r;
    row_begin[r] = i < query_len ? keys.first(i) : 0;
    row_end[r] = i < query_len ? keys.last(i) : 0;
  }

  // Key tiles that any row of the block sees, cut into `splits` contiguous runs.
  const std::int64_t last_row = min(first_row + tile.block_q, query_len) - 1;
  const std::int64_t tile_begin = keys.first(first_row) / tile.block_kv;
  const std::int64_t tile_end = (keys.last(last_row) + tile.block_kv - 1) / tile.block_kv;
  const std::int64_t tiles = max(tile_end - tile_begin, std::int64_t{0});
  const std::int64_t run_begin = tile_begin + tiles * split / args.splits;
  const std::int64_t run_end = tile_begin + tiles * (split + 1) / args.splits;

  if (staging == QueryStaging::resident)
    for (std::int64_t d = 0; d < padded_dim(args.head_dim); d += tile.dim_chunk)
      stage_transposed(q_smem + d * tile.block_q, facts.q, first_row, query_len, d, args.head_dim,
                       [](int row) { return row; });

  for (std::int64_t key_tile = run_begin; key_tile < run_end; ++key_tile) {
    const std::int64_t first_key = key_tile * tile.block_kv;

    // Scores, (block_q, block_kv), a chunk of channels at a time.
    float s_reg[4][4] = {};
    for (std::int64_t d = 0; d < padded_dim(args.head_dim); d += tile.dim_chunk) {
      __syncthreads();
      if (staging == QueryStaging::chunked)
        stage_transposed(q_smem, facts.q, first_row, query_len, d, args.head_dim,
                         [](int row) { return row; });
      stage_transposed(k_smem, facts.k, first_key, keys.kv_len, d, args.head_dim, slot_of_key);
      if (d == 0)
        for (int piece = threadIdx.x; piece < tile.block_kv * value_chunk; piece += tile.threads) {
          const int key = piece / value_chunk, channel = piece % value_chunk;
          const std::int64_t j = first_key + key, c = chunk * value_chunk + channel;
          v_smem[piece] = j < keys.kv_len && c < args.value_dim ? facts.v.row(j)[c] : 0.0f;
        }
      __syncthreads();
      const float* q_chunk = staging == QueryStaging::resident ? q_smem + d * tile.block_q : q_smem;
#pragma unroll 8
      for (int c = 0; c < tile.dim_chunk; ++c) {
        const float4 q4 = *reinterpret_cast<const float4*>(q_chunk + c * tile.block_q + 4 * thread_row);
        const float4 k4 = *reinterpret_cast<const float4*>(k_smem + c * tile.block_kv + 4 * thread_column);
        const float q_value[4] = {q4.x, q4.y, q4.z, q4.w}, k_value[4] = {k4.x, k4.y, k4.z, k4.w};
#pragma unroll
        for (int r = 0; r < 4; ++r)
#pragma unroll
          for (int j = 0; j < 4; ++j) s_reg[r][j] = fmaf(q_value[r], k_value[j], s_reg[r][j]);
      }
    }

    // One step of the online softmax for each row; 16 neighbouring lanes share a row.
    bool edge = false;                     // does any of this thread's rows miss a key of the tile?
    std::uint64_t seen[4] = {0, 0, 0, 0};  // which keys of the tile each row sees; used if options hide keys
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const std::int64_t i = first_row + 4 * thread_row + r;
      float tile_max = -INFINITY;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::int64_t key = first_key + key_of(thread_column, j);
        // With options the ranges are worked out again: registers are short, and there is time.
        bool visible = changes ? i < query_len && key >= keys.first(i) && key < keys.last(i)
                               : key >= row_begin[r] && key < row_end[r];
        if constexpr (changes) {
          if (visible) visible = facts.scoring.change(s_reg[r][j], i, key);
          if (!visible) s_reg[r][j] = -INFINITY;
          // 16 lanes hold neighbouring keys of a row, and the two halves of a warp two rows.
          const std::uint32_t lanes = __ballot_sync(0xffffffffu, visible) >> (threadIdx.x & 16);
          seen[r] |= std::uint64_t{lanes & 0xffffu} << (16 * j);
        } else {
          s_reg[r][j] = visible ? s_reg[r][j] * args.scale : -INFINITY;
        }
        tile_max = fmaxf(tile_max, s_reg[r][j]);
      }
      edge |= changes ? seen[r] != ~std::uint64_t{0}
                      : row_begin[r] > first_key || row_end[r] < first_key + tile.block_kv;
      for (int lanes = 8; lanes > 0; lanes /= 2)
        tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, lanes));
      const float rescale = softmax_raise(state[r], tile_max, StandardExp{});
      float tile_sum = 0.0f;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        s_reg[r][j] = softmax_weight(s_reg[r][j], state[r].max, StandardExp{});
        tile_sum += s_reg[r][j];
        // Dropout comes after the softmax: the sum keeps what the product loses.
        if constexpr (changes)
          s_reg[r][j] = facts.scoring.kept(s_reg[r][j], i, first_key + key_of(thread_column, j));
      }
      state[r].sum += tile_sum;  // this thread's keys only; the 16 lanes are added after the last tile
#pragma unroll
      for (int c = 0; c < outputs; ++c) o_reg[r][c] *= rescale;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      *reinterpret_cast<float4*>(p_smem + key_of(thread_column, j) * weights_stride + 4 * thread_row) =
          make_float4(s_reg[0][j], s_reg[1][j], s_reg[2][j], s_reg[3][j]);
    __syncthreads();

    // The tile's part of the output starts from zero and is added once: a chain of additions is never longer
    // than one tile plus the number of tiles.
    float t_reg[4][outputs] = {};
    const auto accumulate = [&](auto guarded) {
#pragma unroll 4
      for (int key = 0; key < tile.block_kv; ++key) {
        const float4 p4 = *reinterpret_cast<const float4*>(p_smem + key * weights_stride + 4 * thread_row);
        const float p_value[4] = {p4.x, p4.y, p4.z, p4.w};
#pragma unroll
        for (int part = 0; part < outputs / 4; ++part) {
          const float4 v4 =
              *reinterpret_cast<const float4*>(v_smem + key * value_chunk + part * 64 + 4 * thread_column);
          const float v_value[4] = {v4.x, v4.y, v4.z, v4.w};
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            // 0 * NaN is NaN: a key that the row does not see is skipped, not weighted with 0.
            if constexpr (decltype(guarded)::value) {
              const bool sees = changes ? (seen[r] >> key & 1) != 0
                                        : first_key + key >= row_begin[r] && first_key + key < row_end[r];
              if (!sees) continue;
            }
#pragma unroll
            for (int c = 0; c < 4; ++c)
              t_reg[r][4 * part + c] = fmaf(p_value[r], v_value[c], t_reg[r][4 * part + c]);
          }
        }
      }
    };
    if (edge) {
      accumulate(std::true_type{});
    } else {
      accumulate(std::false_type{});
    }
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < outputs; ++c) o_reg[r][c] += t_reg[r][c];
  }

  // Epilogue: the finished rows, or this split's share of them.
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    for (int lanes = 8; lanes > 0; lanes /= 2)
      state[r].sum += __shfl_xor_sync(0xffffffffu, state[r].sum, lanes);
    const std::int64_t i = first_row + 4 * thread_row + r;
    if (i >= query_len) continue;
    const bool whole = args.splits == 1;
    const std::int64_t partial_row = ((split * args.batch + b) * args.query_heads + h) * args.query_len + i;
    const auto ended = facts.scoring.end(state[r]);
    const auto o = args.policy.output_row(args.o, facts.sequence, h, i);
#pragma unroll
    for (int c = 0; c < outputs; ++c) {
      const std::int64_t channel = chunk * value_chunk + c / 4 * 64 + 4 * thread_column + c % 4;
      if (channel >= args.value_dim) continue;
      if (whole) {
        o.set(channel, ended.output(o_reg[r][c]));
      } else {
        args.partial_out[partial_row * args.value_dim + channel] = o_reg[r][c];
      }
    }
    if (chunk != 0 || thread_column != 0) continue;
    if (!whole) {
      args.partial_state[2 * partial_row] = state[r].max;
      args.partial_state[2 * partial_row + 1] = state[r].sum;
    } else if (args.lse.data) {
      args.lse.head(facts.sequence.batch, h)[(facts.sequence.query_start + i) * args.lse.row_stride] =
          ended.lse();
    }
  }
}

// Merges the splits of each row in their order. One warp a row.
template <class Policy>
__global__ void __launch_bounds__(tile.threads) combine_kernel(const ForwardArguments<Policy> args) {
  const std::int64_t rows = args.batch * args.query_heads * args.query_len;
  const std::int64_t row = (std::int64_t{blockIdx.x} * tile.threads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const std::int64_t i = row % args.query_len, h = row / args.query_len % args.query_heads,
                     b = row / args.query_len / args.query_heads;
  const Sequence sequence = args.policy.sequence(args, b);
  if (i >= sequence.query_len) return;
  const auto part = [&](std::int64_t split) {
    const float* stored = args.partial_state + 2 * (split * rows + row);
    return SoftmaxState<float>{stored[0], stored[1]};
  };
  SoftmaxState<float> total;
  for (std::int64_t split = 0; split < args.splits; ++split)
    total = softmax_merge(total, part(split), StandardExp{}).state;
  const auto ended = args.policy.scoring(args, sequence, b, h).end(total);
  const auto o = args.policy.output_row(args.o, sequence, h, i);
  for (std::int64_t channel = lane; channel < args.value_dim; channel += 32) {
    SoftmaxState<float> merged_state;
    float out = 0.0f;
    for (std::int64_t split = 0; split < args.splits; ++split) {
      const auto merged = softmax_merge(merged_state, part(split), StandardExp{});
      out = merged.output(out, args.partial_out[(split * rows + row) * args.value_dim + channel]);
      merged_state = merged.state;
    }
    o.set(channel, ended.output(out));
  }
  if (lane == 0 && args.lse.data)
    args.lse.head(sequence.batch, h)[(sequence.query_start + i) * args.lse.row_stride] = ended.lse();
}

}  // namespace runmax::simt
