// The lesson's online order in plain C++ (C++17): tiles of 32 keys, and per row {max, sum, out}. The rule by
// which a tile enters the state is the CUDA kernel's own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../../../../include/runmax/online_softmax.hpp"
#include "config.hpp"
#include "fold.hpp"

namespace runmax {
namespace lesson {

constexpr std::int64_t rows_per_block = OnlineConfig::rows_per_block;
constexpr std::int64_t key_tile = OnlineConfig::key_tile;

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

// Rows [first, last) of one head. `visible(i)` gives the keys of row i. A row that sees no key gives 0, and
// -inf as its LSE.
template <class Visible, class Rule = Fold>
void online_host_rows(const HostHead& head, std::int64_t first, std::int64_t last, Visible visible,
                      Rule rule = Rule()) {
  std::vector<float> out(static_cast<std::size_t>(head.value_dim));
  float score[key_tile];
  float weight[key_tile];
  for (std::int64_t i = first; i < last; ++i) {
    const Keys keys = visible(i);
    SoftmaxState<float> state = rule.begin();
    std::fill(out.begin(), out.end(), 0.0f);
    const std::int64_t tiles =
        rule.tiles((std::max(keys.end - keys.begin, std::int64_t(0)) + key_tile - 1) / key_tile);
    for (std::int64_t t = 0; t < tiles; ++t) {
      const std::int64_t tile = keys.begin + t * key_tile;
      const std::int64_t count = std::min(key_tile, keys.end - tile);
      float tile_max = negative_infinity<float>();
      for (std::int64_t j = 0; j < count; ++j) {
        float dot = 0.0f;
        for (std::int64_t c = 0; c < head.head_dim; ++c) dot += head.q(i, c) * head.k(tile + j, c);
        score[j] = dot * head.scale;
        tile_max = softmax_max(tile_max, score[j]);
      }
      const float max_before = state.max;
      const float rescale = rule.raise(state, tile_max);
      float tile_sum = 0.0f;
      for (std::int64_t j = 0; j < count; ++j) {
        weight[j] = rule.weight(score[j], tile_max, state);
        tile_sum += rule.counted(weight[j], score[j], max_before, rescale);
      }
      state.sum += tile_sum;
      const float output_rescale = rule.output_rescale(rescale);
      for (float& value : out) value *= output_rescale;
      for (std::int64_t j = 0; j < count; ++j) {
        const float mixed = rule.mixed(weight[j], state);
        for (std::int64_t c = 0; c < head.value_dim; ++c)
          out[static_cast<std::size_t>(c)] += mixed * head.v(tile + j, c);
      }
    }
    for (std::int64_t c = 0; c < head.value_dim; ++c)
      head.o(i, c) = rule.finish(out[static_cast<std::size_t>(c)], state);
    if (head.lse) head.lse[i * head.lse_stride] = softmax_lse(state);
  }
}

}  // namespace lesson
}  // namespace runmax
