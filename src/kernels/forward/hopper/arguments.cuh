// What the hopper kernels are launched with.
#pragma once

#include <cstdint>

#include "kernels/forward/hopper/config.hpp"

namespace runmax::hopper {

// A (batch, heads, length, dim) tensor: strides in elements.
template <class T>
struct DeviceTensor {
  T* data;
  std::int64_t batch_stride, head_stride, row_stride, channel_stride;

  __device__ T* head(std::int64_t b, std::int64_t h) const {
    return data + b * batch_stride + h * head_stride;
  }
};

struct ForwardArguments {
  DeviceTensor<const float> q, k, v;
  DeviceTensor<float> o, lse;  // lse.data may be null
  unsigned char* images;       // (batch, kv_head, key tile, tile_bytes)
  TileHeader* headers;         // (batch, kv_head, key tile)
  float* partial_out;    // (split, batch, head, row, value_dim), normalised; null when there is one split
  float* partial_state;  // (split, batch, head, row, 2): max in log2, sum
  std::int64_t batch, query_heads, kv_heads, group;
  int query_len, kv_len, head_dim, value_dim;  // lengths below 2^29: the plan refuses more
  std::int64_t query_tiles, key_tiles, splits, work_items;
  float scale;       // softmax_scale
  float scale_log2;  // softmax_scale * log2(e)
  // Key j is visible to query i iff first_key(i) <= j < last_key(i), with the diagonal at i + offset.
  int offset, left, right;  // -1 is unbounded

  __device__ int first_key(int i) const { return left < 0 ? 0 : min(max(i + offset - left, 0), kv_len); }
  __device__ int last_key(int i) const {
    return right < 0 ? kv_len : min(max(i + offset + right + 1, 0), kv_len);
  }
};

}  // namespace runmax::hopper
