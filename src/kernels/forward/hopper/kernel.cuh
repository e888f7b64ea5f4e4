// FP32-grade attention on Hopper's tensor cores: two fp16 planes an operand, three products, integer maxima.
#pragma once

#include <cfloat>
#include <type_traits>

#include "device/mma/descriptor.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/mbarrier.cuh"
#include "device/ptx/warpgroup.cuh"
#include "device/ptx/wgmma.cuh"
#include "device/tile/swizzle.hpp"
#include "kernels/forward/hopper/arguments.cuh"
#include "kernels/forward/hopper/split.cuh"
#include "runmax/online_softmax.hpp"

namespace runmax::hopper {

// --- Shared memory
// -------------------------------------------------------------------------------------------------

template <ForwardTile config>
struct Shared {
  // (plane, column block of 64, block_q rows, 64), swizzled; each consumer writes and reads its own 64 rows.
  unsigned char q_smem[query_bytes(config)];
  unsigned char slots[config.slots][slot_bytes];
  TileHeader headers[config.header_stages];
  Barriers barriers;  // full: a slot's bytes have landed; empty: every consumer warp has read it
  int suspicious[4 * config.consumers];  // by warp: some row of the work item may have to be computed again
  float query_unit[config.block_q()];    // q = planes * query_unit, a power of two, row by row
};

// Position in the ring of slots; the parity flips each time round.
template <int slots>
struct RingPosition {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    if (++slot == slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

// ln(2^max * sum); -inf for a row that saw no key. ln 2 comes in two pieces: max is an integer, and its
// product with the first piece must not round.
__device__ inline float natural_lse(float max, float sum) {
  return sum == 0.0f ? -INFINITY
                     : fmaf(max, 0.693145751953125f, fmaf(max, 1.428606765330187e-06f, logf(sum)));
}

// --- Work items
// ------------------------------------------------------------------------------------------------------

// One block of query rows against one run of key tiles.
struct WorkItem {
  int b, h, split, first_row, tile_begin, tile_end;
};

// The index that this block works on in its n-th round. Rounds run over the work items forwards and backwards
// in turn: under a causal mask a block that had a long item in one round gets a short one in the next.
__device__ inline std::uint32_t work_index(std::uint32_t round) {
  return round * gridDim.x + (round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
}

// Heads vary slowest, so that blocks which run at the same time read the same keys; the query blocks of a
// head come last block first: under a causal mask those are the longest.
template <ForwardTile config>
__device__ WorkItem work_item(const ForwardArguments& args, std::uint32_t index) {
  WorkItem work;
  const auto divide = [&](std::int64_t by) {
    const auto divisor = static_cast<std::uint32_t>(by);
    const std::uint32_t quotient = index / divisor;
    const auto rest = static_cast<int>(index - quotient * divisor);
    index = quotient;
    return rest;
  };
  work.split = divide(args.splits);
  work.first_row = (static_cast<int>(args.query_tiles) - 1 - divide(args.query_tiles)) * config.block_q();
  work.h = divide(args.query_heads);
  work.b = static_cast<int>(index);
  const int last_row = min(work.first_row + config.block_q(), args.query_len) - 1;
  const int begin = args.first_key(work.first_row) / block_kv;
  const int end = (args.last_key(last_row) + block_kv - 1) / block_kv;
  const std::int64_t tiles = max(end - begin, 0);
  work.tile_begin = begin + static_cast<int>(tiles * work.split / args.splits);
  work.tile_end = begin + static_cast<int>(tiles * (work.split + 1) / args.splits);
  return work;
}

// --- Producer
// --------------------------------------------------------------------------------------------------------

// One thread streams the images of every work item through the ring: K hi, K lo, V hi, V lo of each tile.
template <ForwardTile config>
__device__ void produce(Shared<config>& shared, const ForwardArguments& args) {
  RingPosition<config.slots> ring;
  std::uint32_t tile_count = 0;
  ptx::wait_for_dependencies();  // the images are written by the kernel before this one
  for (std::uint32_t round = 0; work_index(round) < args.work_items; ++round) {
    const WorkItem work = work_item<config>(args, work_index(round));
    const std::int64_t head = work.b * args.kv_heads + work.h / args.group;
    for (int tile = work.tile_begin; tile < work.tile_end; ++tile, ++tile_count) {
      const unsigned char* image = args.images + (head * args.key_tiles + tile) * tile_bytes(config.dim);
#pragma unroll
      for (int part = 0; part < 2 * config.slots_per_operand(); ++part) {
        ptx::mbarrier_wait(&shared.barriers.empty[ring.slot], ring.parity ^ 1, "a slot to be empty");
        std::uint64_t* full = &shared.barriers.full[ring.slot];
        if (part == 0) {
          ptx::mbarrier_arrive_expect_tx(full, slot_bytes + sizeof(TileHeader));
          ptx::bulk_copy_to_shared(&shared.headers[tile_count % config.header_stages],
                                   &args.headers[head * args.key_tiles + tile], sizeof(TileHeader), full);
        } else {
          ptx::mbarrier_arrive_expect_tx(full, slot_bytes);
        }
        ptx::bulk_copy_to_shared(shared.slots[ring.slot], image + part * std::int64_t{slot_bytes}, slot_bytes,
                                 full);
        ring.advance();
      }
    }
  }
}

// --- Consumer
// --------------------------------------------------------------------------------------------------------

// What a thread keeps of each of its two rows, 8 apart.
struct RowState {
  float max = -FLT_MAX;     // M: integer, at least every score seen, in log2
  float sum = 0.0f;         // sum of 2^(score - M) over this thread's keys
  float exponent = -1e30f;  // E: the output is held in units of 2^(E - 30)
};

// Splits a consumer's 64 rows of Q into planes: a warp takes 16 rows, dim / 8 neighbouring lanes a row.
template <ForwardTile config>
__device__ void split_queries(Shared<config>& shared, const ForwardArguments& args, const WorkItem& work,
                              int consumer, int warp, int lane) {
  constexpr int lanes_per_row = config.dim / 8, rows_per_step = 32 / lanes_per_row,
                steps = 16 / rows_per_step;
  const float* q = args.q.head(work.b, work.h);
  const bool vectors = loads_vectors(args.q, q);
  const int first = consumer * 64 + warp * 16 + lane / lanes_per_row, channel = lane % lanes_per_row * 8;
  float x[steps][8];
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int i = work.first_row + first + step * rows_per_step;
    load_piece(x[step], q + i * args.q.row_stride, args.q.channel_stride, channel, args.head_dim,
               i < args.query_len, vectors);
  }
  bool large = false;
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int row = first + step * rows_per_step;
    float largest = 0.0f;
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      x[step][c] *= args.scale_log2;
      if (fabsf(x[step][c]) <= FLT_MAX) largest = fmaxf(largest, fabsf(x[step][c]));
    }
#pragma unroll
    for (int lanes = lanes_per_row / 2; lanes > 0; lanes /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));
    const int exponent = max(exponent_above(largest), smallest_exponent);
    large = large || exponent > suspicious_exponent;
    const Power2 unit(plane_exponent - exponent);
#pragma unroll
    for (int c = 0; c < 8; ++c) x[step][c] = unit.times(x[step][c]);
    const SplitPiece planes = split_piece(x[step]);
    const std::uint32_t at =
        channel / 64 * (config.block_q() * 128) + tile::swizzled_offset(row, channel % 64);
    *reinterpret_cast<uint4*>(shared.q_smem + at) = planes.hi;
    *reinterpret_cast<uint4*>(shared.q_smem + query_bytes(config) / 2 + at) = planes.lo;
    if (channel == 0) shared.query_unit[row] = Power2(exponent - plane_exponent).times(1.0f);
  }
  large = __any_sync(0xffffffffu, large) != 0;
  if (lane == 0) shared.suspicious[consumer * 4 + warp] = large ? 1 : 0;
}

template <int dim>
__device__ inline void multiply_weights(float (&t)[dim / 2], const std::uint32_t (&a)[4], std::uint64_t b,
                                        bool accumulate) {
  if constexpr (dim == 64) {
    ptx::wgmma_m64n64k16_rs(t, a, b, accumulate);
  } else {
    ptx::wgmma_m64n128k16_rs(t, a, b, accumulate);
  }
}

// The two planes of an operand in the ring.
struct OperandPlanes {
  const unsigned char* hi;
  const unsigned char* lo;
};

template <ForwardTile config>
__device__ OperandPlanes wait_operand(Shared<config>& shared, RingPosition<config.slots>& ring,
                                      const char* fact) {
  OperandPlanes planes;
  ptx::mbarrier_wait(&shared.barriers.full[ring.slot], ring.parity, fact);
  planes.hi = shared.slots[ring.slot];
  planes.lo = planes.hi + plane_bytes(config.dim);
  ring.advance();
  if constexpr (config.slots_per_operand() == 2) {
    ptx::mbarrier_wait(&shared.barriers.full[ring.slot], ring.parity, fact);
    planes.lo = shared.slots[ring.slot];
    ring.advance();
  }
  return planes;
}

// Every warp says that it has read the operand's slots; `ring` stands where the operand began.
template <ForwardTile config>
__device__ void release_operand(Shared<config>& shared, RingPosition<config.slots>& ring, int lane) {
#pragma unroll
  for (int part = 0; part < config.slots_per_operand(); ++part) {
    if (lane == 0) ptx::mbarrier_arrive(&shared.barriers.empty[ring.slot]);
    ring.advance();
  }
}

// Scores of 64 rows and 128 keys: q_lo k_hi + q_hi k_lo + q_hi k_hi, the small products first.
template <ForwardTile config>
__device__ void multiply_scores(float (&s_reg)[64], std::uint64_t q_hi, std::uint64_t q_lo,
                                const OperandPlanes& k) {
  const std::uint64_t k_hi = mma::k_major_descriptor(k.hi), k_lo = mma::k_major_descriptor(k.lo);
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

// s = product of planes * unit, a power of two. The clamps keep 0 * inf and -inf * 0 out; both ends are
// beyond any finite score.
__device__ inline float score_unit(float query_unit, float key_unit) {
  return fminf(fmaxf(query_unit * key_unit, FLT_MIN), 0x1p127f);
}

// Hides the scores of keys that the thread's rows do not see.
__device__ inline void mask_scores(float (&s_reg)[64], const ForwardArguments& args, int first_query,
                                   int first_key, int column) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = min(first_query + 8 * r, args.query_len - 1);
    const int begin = args.first_key(query) - first_key - column,
              end = args.last_key(query) - first_key - column;
#pragma unroll
    for (int n = 0; n < 16; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        if (8 * n + c < begin || 8 * n + c >= end) s_reg[4 * n + 2 * r + c] = -INFINITY;
  }
}

// Both planes of the weights as wgmma's A operand for each step of 16 keys.
struct WeightPlanes {
  std::uint32_t hi[8][4], lo[8][4];
};

// One step of the online softmax on a tile's scores, in log2 with integer maxima: every factor between tiles
// is an exact power of two. Gives the planes of the weights, 2^(score - M) in the unit that the output's
// exponent asks for, and the factors by which the running outputs of the two rows shrink. Both rows go
// together and every reduction runs in several chains: a warp that waits for itself is what this kernel has
// most of.
template <bool wide>
__device__ inline void weigh(const float (&s_reg)[64], WeightPlanes& p, RowState (&rows)[2],
                             float (&shrink)[2], const TileHeader& header, const float* query_unit,
                             int column) {
  float unit[2], shift[2], raise[2];
  float tile_max[2][2], tile_reach[2][2];  // max of s, and of s + r_j
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    unit[r] = score_unit(query_unit[8 * r], header.key_unit);
    tile_max[r][0] = tile_max[r][1] = tile_reach[r][0] = tile_reach[r][1] = -INFINITY;
  }
#pragma unroll
  for (int n = 0; n < 16; ++n)
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
  for (int n = 0; n < 16; ++n)
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

// The tile's part of the output in fresh accumulators: p_lo v_hi + p_hi v_lo + p_hi v_hi.
template <ForwardTile config>
__device__ void multiply_values(float (&t_reg)[config.dim / 2], const WeightPlanes& p,
                                const OperandPlanes& v) {
  const std::uint64_t v_hi = mma::k_major_descriptor(v.hi), v_lo = mma::k_major_descriptor(v.lo);
  ptx::wgmma_fence();
#pragma unroll
  for (int product = 0; product < 3; ++product)
#pragma unroll
    for (int step = 0; step < 8; ++step)
      multiply_weights<config.dim>(
          t_reg, product == 0 ? p.lo[step] : p.hi[step],
          mma::advance(product == 1 ? v_lo : v_hi, step / 4 * (config.dim * 128) + step % 4 * 32),
          product + step > 0);
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
}

// --- Epilogue
// ------------------------------------------------------------------------------------------------------

// Where a row's result goes: the caller's tensors, or this split's part of the workspace.
struct RowOutput {
  float* out;
  std::int64_t channel_stride;
  float* state;  // null when the row is whole

  __device__ RowOutput(const ForwardArguments& args, const WorkItem& work, int i) {
    if (args.splits == 1) {
      out = args.o.head(work.b, work.h) + i * args.o.row_stride;
      channel_stride = args.o.channel_stride;
      state = nullptr;
    } else {
      const std::int64_t row =
          ((work.split * args.batch + work.b) * args.query_heads + work.h) * args.query_len + i;
      out = args.partial_out + row * args.value_dim;
      channel_stride = 1;
      state = args.partial_state + 2 * row;
    }
  }

  // max in log2.
  __device__ void store_state(const ForwardArguments& args, const WorkItem& work, int i, float max,
                              float sum) const {
    if (state) {
      state[0] = sum == 0.0f ? -INFINITY : max;
      state[1] = sum;
    } else if (args.lse.data) {
      args.lse.head(work.b, work.h)[i * args.lse.row_stride] = natural_lse(max, sum);
    }
  }
};

// Divides by the sum and stores 64 finished rows, or this split's share of them.
template <ForwardTile config>
__device__ void store_rows(const float (&o_reg)[config.dim / 2], RowState (&rows)[2],
                           const ForwardArguments& args, const WorkItem& work, int first_row, int column) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    RowState& row = rows[r];
    float sum = row.sum;
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const int i = work.first_row + first_row + 8 * r;
    if (i >= args.query_len) continue;
    const bool empty = sum == 0.0f;
    const float normalizer = empty ? 0.0f : 1.0f / sum;
    // 2^(E - 30) may be below FP32's smallest number although the product is not: two factors.
    const float exponent = fmaxf(row.exponent, -300.0f) - 2.0f * static_cast<float>(plane_exponent);
    const float half_exponent = floorf(0.5f * exponent);
    const float unit_a = exp2f(half_exponent), unit_b = exp2f(exponent - half_exponent);
    const RowOutput output(args, work, i);
    const bool pairs = output.channel_stride == 1 && args.value_dim % 2 == 0 &&
                       reinterpret_cast<std::uintptr_t>(output.out) % sizeof(float2) == 0;
#pragma unroll
    for (int n = 0; n < config.dim / 8; ++n) {
      const int channel = 8 * n + column;
      float2 value = make_float2(o_reg[4 * n + 2 * r], o_reg[4 * n + 2 * r + 1]);
      value.x = empty ? 0.0f : value.x * normalizer * unit_a * unit_b;
      value.y = empty ? 0.0f : value.y * normalizer * unit_a * unit_b;
      if (pairs) {
        if (channel < args.value_dim) *reinterpret_cast<float2*>(output.out + channel) = value;
      } else {
        if (channel < args.value_dim) output.out[channel * output.channel_stride] = value.x;
        if (channel + 1 < args.value_dim) output.out[(channel + 1) * output.channel_stride] = value.y;
      }
    }
    if (column == 0) output.store_state(args, work, i, row.max, sum);
  }
}

// --- Rows computed again
// ---------------------------------------------------------------------------------------------

// 0 * NaN is NaN inside the matrix unit, so the splitter puts zeros in place of a row of K or V that is not
// finite, and lists it. Query rows that see such a key are computed once more, by FMA from the original
// numbers and with natural exponentials: slow, right, and away from the registers of the main loop. So are
// rows whose scores may not fit FP32 once they are multiplied by log2(e).

// Above this unit of the product of planes, a score in log2 can pass 2^127.
inline constexpr float largest_unit = 0x1p88f;

// What the lanes of a warp find in the headers of a run of tiles.
struct RunFacts {
  bool listed;        // some key is not finite
  float largest_key;  // the largest key_unit
};

__device__ inline RunFacts run_facts(const TileHeader* headers, const WorkItem& work, int lane) {
  bool listed = false;
  float largest_key = 0.0f;
  for (int tile = work.tile_begin + lane; tile < work.tile_end; tile += 32) {
    listed = listed || headers[tile].listed_keys > 0 || headers[tile].listed_values > 0;
    largest_key = fmaxf(largest_key, headers[tile].key_unit);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2)
    largest_key = fmaxf(largest_key, __shfl_xor_sync(0xffffffffu, largest_key, lanes));
  return {__any_sync(0xffffffffu, listed) != 0, largest_key};
}

// Does row i see a listed key of this run of tiles?
__device__ inline bool sees_listed_key(const ForwardArguments& args, const TileHeader* headers,
                                       const WorkItem& work, int i) {
  const int begin = args.first_key(i), end = args.last_key(i);
  for (int tile = work.tile_begin; tile < work.tile_end; ++tile) {
    const TileHeader& header = headers[tile];
    for (int index = 0; index < header.listed_keys; ++index) {
      const int key = tile * block_kv + header.listed_key[index];
      if (key >= begin && key < end) return true;
    }
    for (int index = 0; index < header.listed_values; ++index) {
      const int key = tile * block_kv + header.listed_value[index];
      if (key >= begin && key < end) return true;
    }
  }
  return false;
}

// One row by a warp: a lane takes one of 32 keys, then every 32nd channel.
template <ForwardTile config>
__device__ void recompute_row(const ForwardArguments& args, const WorkItem& work, int i, int lane) {
  constexpr int channels = config.dim / 32;
  const float* q = args.q.head(work.b, work.h) + i * args.q.row_stride;
  const float* k = args.k.head(work.b, work.h / args.group);
  const float* v = args.v.head(work.b, work.h / args.group);
  const int begin = max(args.first_key(i), work.tile_begin * block_kv);
  const int end = min(args.last_key(i), work.tile_end * block_kv);
  SoftmaxState<float> state;
  float out[channels] = {};
  for (int first = begin; first < end; first += 32) {
    float score = -INFINITY;
    if (first + lane < end) {
      score = 0.0f;
      for (int c = 0; c < args.head_dim; ++c)
        score = fmaf(q[c * args.q.channel_stride] * args.scale,
                     k[(first + lane) * args.k.row_stride + c * args.k.channel_stride], score);
    }
    float tile_max = score;
    for (int lanes = 16; lanes > 0; lanes /= 2)
      tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, lanes));
    const float rescale = softmax_raise(state, tile_max, StandardExp{});
    const float weight = softmax_weight(score, state.max, StandardExp{});
    float tile_sum = weight;
    for (int lanes = 16; lanes > 0; lanes /= 2) tile_sum += __shfl_xor_sync(0xffffffffu, tile_sum, lanes);
    state.sum += tile_sum;
    float part[channels] = {};
    for (int key = 0; key < min(32, end - first); ++key) {
      const float of_key = __shfl_sync(0xffffffffu, weight, key);
#pragma unroll
      for (int c = 0; c < channels; ++c)
        if (lane + 32 * c < args.value_dim)
          part[c] =
              fmaf(of_key, v[(first + key) * args.v.row_stride + (lane + 32 * c) * args.v.channel_stride],
                   part[c]);
    }
#pragma unroll
    for (int c = 0; c < channels; ++c) out[c] = fmaf(out[c], rescale, part[c]);
  }
  const float normalizer = softmax_normalizer(state);
  const RowOutput output(args, work, i);
#pragma unroll
  for (int c = 0; c < channels; ++c)
    if (lane + 32 * c < args.value_dim)
      output.out[(lane + 32 * c) * output.channel_stride] = out[c] * normalizer;
  if (lane != 0) return;
  if (output.state) {
    const float log2e = 1.4426950408889634f;
    output.store_state(args, work, i, fminf(fmaxf(state.max * log2e, -FLT_MAX), FLT_MAX), state.sum);
  } else if (args.lse.data) {
    args.lse.head(work.b, work.h)[i * args.lse.row_stride] = softmax_lse(state);
  }
}

// A warp goes over its 16 rows.
template <ForwardTile config>
__device__ void recompute_rows(const Shared<config>& shared, const ForwardArguments& args,
                               const WorkItem& work, int first_row, int lane) {
  const TileHeader* headers = args.headers + (work.b * args.kv_heads + work.h / args.group) * args.key_tiles;
  const RunFacts facts = run_facts(headers, work, lane);
  for (int row = first_row; row < min(first_row + 16, args.query_len - work.first_row); ++row)
    if (shared.query_unit[row] * facts.largest_key > largest_unit ||
        (facts.listed && sees_listed_key(args, headers, work, work.first_row + row)))
      recompute_row<config>(args, work, work.first_row + row, lane);
}

template <ForwardTile config>
__device__ void consume(Shared<config>& shared, const ForwardArguments& args, int consumer) {
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
  const int first_row = consumer * 64 + warp * 16 + lane / 4;  // and 8 below
  const int column = lane % 4 * 2;  // of each 8 keys or channels, and its neighbour
  RingPosition<config.slots> ring;
  int header_stage = 0;
  for (std::uint32_t round = 0; work_index(round) < args.work_items; ++round) {
    const WorkItem work = work_item<config>(args, work_index(round));
    split_queries(shared, args, work, consumer, warp, lane);
    ptx::fence_proxy_async_shared();
    ptx::named_barrier_sync(1 + consumer, 128);
    const std::uint64_t q_hi = mma::k_major_descriptor(shared.q_smem + consumer * 64 * 128);
    const std::uint64_t q_lo = mma::advance(q_hi, query_bytes(config) / 2);

    RowState rows[2];
    // Keys that all 64 rows of this consumer see: tiles inside need no mask.
    const int top = min(work.first_row + consumer * 64, args.query_len - 1);
    const int bottom = min(work.first_row + consumer * 64 + 63, args.query_len - 1);
    const int common_begin = args.first_key(bottom), common_end = args.last_key(top);

    float o_reg[config.dim / 2];
#pragma unroll
    for (int c = 0; c < config.dim / 2; ++c) o_reg[c] = 0.0f;

    for (int tile = work.tile_begin; tile < work.tile_end; ++tile) {
      const int first_key = tile * block_kv;
      const TileHeader& header = shared.headers[header_stage];
      header_stage = header_stage + 1 == config.header_stages ? 0 : header_stage + 1;
      float s_reg[64], shrink[2];
      WeightPlanes p;

      RingPosition<config.slots> held = ring;
      const OperandPlanes k = wait_operand(shared, ring, "keys to land");
      multiply_scores<config>(s_reg, q_hi, q_lo, k);
      release_operand(shared, held, lane);

      if (lane == 0 && (header.listed_keys | header.listed_values | header.large_keys) != 0)
        shared.suspicious[consumer * 4 + warp] = 1;
      const bool edge = first_key < common_begin || first_key + block_kv > common_end;
      if (edge) mask_scores(s_reg, args, work.first_row + first_row, first_key, column);
      if (header.wide) {
        weigh<true>(s_reg, p, rows, shrink, header, shared.query_unit + first_row, column);
      } else {
        weigh<false>(s_reg, p, rows, shrink, header, shared.query_unit + first_row, column);
      }

      float t_reg[config.dim / 2];
      const OperandPlanes v = wait_operand(shared, ring, "values to land");
      multiply_values<config>(t_reg, p, v);
      release_operand(shared, held, lane);
#pragma unroll
      for (int n = 0; n < config.dim / 8; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c)
          o_reg[4 * n + c] = fmaf(o_reg[4 * n + c], shrink[c / 2], t_reg[4 * n + c]);
    }
    // The work item is worked out again rather than kept in registers through the loop.
    std::uint32_t index = work_index(round);
    asm volatile("" : "+r"(index));
    const WorkItem done = work_item<config>(args, index);
    store_rows<config>(o_reg, rows, args, done, first_row, column);
    __syncwarp();
    if (shared.suspicious[consumer * 4 + warp] != 0)
      recompute_rows<config>(shared, args, done, consumer * 64 + warp * 16, lane);
  }
}

// --- Kernel
// ----------------------------------------------------------------------------------------------------------

// nvcc cannot name a kernel whose template argument is a struct when another template launches it: dim
// chooses.
template <int dim>
__global__ void __launch_bounds__(tile_of_dim(dim).threads(), 1)
    forward_kernel(const __grid_constant__ ForwardArguments args) {
  constexpr ForwardTile config = tile_of_dim(dim);
  extern __shared__ __align__(1024) unsigned char raw_shared[];
  auto& shared = *reinterpret_cast<Shared<config>*>(raw_shared);
  ptx::launch_dependents();
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < config.slots; ++slot) {
      ptx::mbarrier_init(&shared.barriers.full[slot], 1);
      ptx::mbarrier_init(&shared.barriers.empty[slot], 4 * config.consumers);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < 128) {
    ptx::shrink_registers<config.producer_registers>();
    if (threadIdx.x == 0) produce(shared, args);
  } else {
    ptx::grow_registers<config.consumer_registers>();
    consume(shared, args, static_cast<int>(threadIdx.x / 128) - 1);
  }
}

// Merges the splits of each row in their order. One warp a row. Partial outputs are normalised; maxima are
// integers in log2, so every factor but the sums is exact.
inline constexpr int combine_threads = 256;

__global__ void __launch_bounds__(combine_threads)
    combine_kernel(const __grid_constant__ ForwardArguments args) {
  ptx::wait_for_dependencies();
  const std::int64_t rows = args.batch * args.query_heads * args.query_len;
  const std::int64_t row = (std::int64_t{blockIdx.x} * combine_threads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const std::int64_t i = row % args.query_len, h = row / args.query_len % args.query_heads,
                     b = row / args.query_len / args.query_heads;
  // A lane for each split: the plan makes at most 32.
  float max = -INFINITY, weight = 0.0f;
  if (lane < args.splits) {
    const float2 state = reinterpret_cast<const float2*>(args.partial_state)[lane * rows + row];
    max = state.x;
    weight = state.y;
  }
  float total_max = max;
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    total_max = fmaxf(total_max, __shfl_xor_sync(0xffffffffu, total_max, lanes));
  // A split that saw no key has weight 0; exp2(-inf - -inf) must not turn it into NaN.
  if (weight != 0.0f) weight *= exp2f(max - total_max);
  float sum = weight;
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  const bool empty = sum == 0.0f;
  for (int channel = lane; channel < (args.value_dim + 31) / 32 * 32; channel += 32) {
    float out = 0.0f;
#pragma unroll 8
    for (int split = 0; split < args.splits; ++split) {
      const float of_split = __shfl_sync(0xffffffffu, weight, split);
      const float part =
          channel < args.value_dim ? args.partial_out[(split * rows + row) * args.value_dim + channel] : 0.0f;
      if (of_split != 0.0f) out = fmaf(of_split, part, out);
    }
    if (channel < args.value_dim)
      args.o.head(b, h)[i * args.o.row_stride + channel * args.o.channel_stride] = empty ? 0.0f : out / sum;
  }
  if (lane == 0 && args.lse.data) args.lse.head(b, h)[i * args.lse.row_stride] = natural_lse(total_max, sum);
}

}  // namespace runmax::hopper
