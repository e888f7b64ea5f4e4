// What the kernels of a forward family on planes are launched with.
#pragma once

#include <cstdint>

#include "device/softmax/visible_keys.cuh"
#include "device/tile/tensor.cuh"

namespace runmax::planes {

template <class TileHeader>
struct ForwardArguments {
  DeviceTensor<const float> q, k, v;
  DeviceTensor<float> o, lse;  // lse.data may be null
  unsigned char* images;       // (batch, kv_head, key tile, bytes of a tile)
  TileHeader* headers;         // (batch, kv_head, key tile)
  float* partial_out;    // (split, batch, head, row, value_dim), normalised; null when there is one split
  float* partial_state;  // (split, batch, head, row, 2): max in log2, sum
  std::int64_t batch, query_heads, kv_heads, group;
  int query_len, head_dim, value_dim;  // lengths below 2^29: the plan refuses more
  std::int64_t query_tiles, key_tiles, splits, work_items;
  float scale;       // softmax_scale
  float scale_log2;  // softmax_scale * log2(e)
  VisibleKeys<int> keys;
};

}  // namespace runmax::planes
