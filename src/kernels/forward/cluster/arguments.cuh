// What the cluster kernel is launched with.
#pragma once

#include <cstdint>

#include "device/softmax/visible_keys.cuh"
#include "device/tile/tensor.cuh"

namespace runmax::cluster {

struct ForwardArguments {
  DeviceTensor<const float> q, k, v;
  DeviceTensor<float> o, lse;                                  // lse.data may be null
  std::uint32_t query_tiles, query_heads, group, log2_blocks;  // blocks: of a cluster
  int query_len, head_dim, value_dim;
  float scale;       // softmax_scale
  float scale_log2;  // softmax_scale * log2(e)
  VisibleKeys<int> keys;
};

}  // namespace runmax::cluster
