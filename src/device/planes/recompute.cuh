// Rows that the planes cannot hold, computed again.
#pragma once

#include <cfloat>
#include <cstdint>

#include "device/planes/output.cuh"
#include "device/softmax/attend_row.cuh"

namespace runmax::planes {

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

template <class Header>
__device__ inline RunFacts run_facts(const Header* headers, const WorkItem& work, int lane) {
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
template <int block_kv, class Arguments, class Header>
__device__ inline bool sees_listed_key(const Arguments& args, const Header* headers, const WorkItem& work,
                                       int i) {
  const int begin = args.keys.first(i), end = args.keys.last(i);
  for (int tile = work.tile_begin; tile < work.tile_end; ++tile) {
    const Header& header = headers[tile];
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
template <int dim, int block_kv, class Arguments>
__device__ void recompute_row(const Arguments& args, const WorkItem& work, int i, int lane) {
  constexpr int channels = dim / 32;
  SoftmaxState<float> state;
  float out[channels] = {};
  attend_row<channels>(state, out, args.q.head(work.b, work.h) + i * args.q.row_stride, args.q,
                       args.k.head(work.b, work.h / args.group), args.k,
                       args.v.head(work.b, work.h / args.group), args.v, args.head_dim, args.value_dim,
                       args.scale, max(args.keys.first(i), work.tile_begin * block_kv),
                       min(args.keys.last(i), work.tile_end * block_kv), lane);
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

// A warp goes over its 16 rows; unit_of(row) is a row's query_unit.
template <int dim, int block_kv, class Arguments, class UnitOf>
__device__ void recompute_rows(const Arguments& args, const WorkItem& work, int first_row, int lane,
                               UnitOf unit_of) {
  const auto* headers = args.headers + (work.b * args.kv_heads + work.h / args.group) * args.key_tiles;
  const RunFacts facts = run_facts(headers, work, lane);
  for (int row = 0; row < min(16, args.query_len - work.first_row - first_row); ++row) {
    const int i = work.first_row + first_row + row;
    if (unit_of(row) * facts.largest_key > largest_unit ||
        (facts.listed && sees_listed_key<block_kv>(args, headers, work, i)))
      recompute_row<dim, block_kv>(args, work, i, lane);
  }
}

}  // namespace runmax::planes
