// The lesson's online order in plain C++ (C++17): tiles of 32 keys, and per row {max, sum, out}.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "../../../../include/runmax/online_softmax.hpp"

namespace runmax {
namespace lesson {

constexpr std::int64_t rows_per_block = 64;
constexpr std::int64_t key_tile = 32;

// One matrix of one head: row and channel strides in elements.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t channel_stride = 1;
  T& operator()(std::int64_t row, std::int64_t channel) const {
    return data[row * row_stride + channel * channel_stride];
  }
};

struct HostHead {
  Matrix<const float> q, k, v;
  Matrix<float> o;
  float* lse = nullptr;
  std::int64_t lse_stride = 1;
  std::int64_t query_len = 0, kv_len = 0, head_dim = 0, value_dim = 0;
  float scale = 1.0f;
};

// Visible keys of a row: [begin, end).
struct Keys {
  std::int64_t begin, end;
};

// Rows [first, last) of one head. `visible(i)` gives the keys of row i.
template <class Visible>
void online_host_rows(const HostHead& head, std::int64_t first, std::int64_t last, Visible visible) {
  const StandardExp exp;
  std::vector<float> out(static_cast<std::size_t>(head.value_dim));
  float score[key_tile];
  for (std::int64_t i = first; i < last; ++i) {
    SoftmaxState<float> state;
    std::fill(out.begin(), out.end(), 0.0f);
    const Keys keys = visible(i);
    for (std::int64_t tile = keys.begin; tile < keys.end; tile += key_tile) {
      const std::int64_t count = std::min(key_tile, keys.end - tile);
      float tile_max = negative_infinity<float>();
      for (std::int64_t j = 0; j < count; ++j) {
        float dot = 0.0f;
        for (std::int64_t c = 0; c < head.head_dim; ++c) dot += head.q(i, c) * head.k(tile + j, c);
        score[j] = dot * head.scale;
        tile_max = softmax_max(tile_max, score[j]);
      }
      // exp(-inf - new max) is 0, so the first tile's rescale wipes the initial state: no special first tile.
      const float rescale = softmax_raise(state, tile_max, exp);
      for (float& value : out) value *= rescale;
      for (std::int64_t j = 0; j < count; ++j) {
        const float weight = softmax_weight(score[j], state.max, exp);
        state.sum += weight;
        for (std::int64_t c = 0; c < head.value_dim; ++c)
          out[static_cast<std::size_t>(c)] += weight * head.v(tile + j, c);
      }
    }
    const float normalizer = softmax_normalizer(state);
    for (std::int64_t c = 0; c < head.value_dim; ++c)
      head.o(i, c) = out[static_cast<std::size_t>(c)] * normalizer;
    if (head.lse) head.lse[i * head.lse_stride] = softmax_lse(state);
  }
}

}  // namespace lesson
}  // namespace runmax
