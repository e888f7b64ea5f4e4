// Which memory an item of cpu_online asks for ahead of time: what its thread will touch next.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/forward/cpu/ahead.hpp"
#include "kernels/forward/cpu/geometry.hpp"

namespace runmax::cpu {

inline void ask_for_rows(Ahead& ahead, const TensorView& view, std::int64_t batch, std::int64_t head,
                         std::int64_t first, std::int64_t count) {
  if (view.dtype != DType::f32 || view.strides[3] != 1) return;
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(float));
  ahead.add(head_data(view, batch, head) + first * view.strides[2], view.dim() * bytes,
            view.strides[2] * bytes, count);
}

// The rows of O that the item will write, the queries of the tile that its thread comes to next, and a share
// of the next head's keys if the second-level cache holds those of two heads.
inline Ahead rows_ahead(const Geometry& geometry, const Tensors& t, std::int64_t kv_head, std::int64_t tile,
                        std::int64_t threads) {
  const Problem& p = geometry.problem();
  Ahead ahead;
  const auto tile_rows = [&](const TensorView& view, std::int64_t head, std::int64_t of_tile) {
    const std::int64_t first = of_tile * geometry.block_q();
    for_each_run(geometry, head, first, std::min(geometry.block_q(), geometry.rows() - first),
                 [&](const RowAddress& at, std::int64_t, std::int64_t count) {
                   ask_for_rows(ahead, view, geometry.tensor_batch(at.batch), at.head,
                                geometry.tensor_row(at), count);
                 });
  };
  tile_rows(t.o, kv_head, tile);
  if (!p.varlen.empty() || p.seqused || p.page_size > 0) return ahead;
  // Tiles are taken from the last to the first.
  const std::int64_t tiles = geometry.row_tiles();
  const std::int64_t next = tile - threads, next_head = kv_head + 1;
  const bool more = next_head < geometry.kv_heads();
  if (next >= 0)
    tile_rows(t.q, kv_head, next);
  else if (more && tiles + next >= 0)
    tile_rows(t.q, next_head, tiles + next);
  if (!more || p.kv_len * (p.head_dim + p.value_dim) > most_floats_ahead) return ahead;
  const std::int64_t begin = (tiles - 1 - tile) * p.kv_len / tiles;
  const std::int64_t end = (tiles - tile) * p.kv_len / tiles;
  for (const TensorView* view : {&t.k, &t.v})
    ask_for_rows(ahead, *view, next_head / p.kv_heads, next_head % p.kv_heads, begin, end - begin);
  return ahead;
}

}  // namespace runmax::cpu
