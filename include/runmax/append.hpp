// Appending to a KV cache, and rotary position embedding: what a decoder does before it attends.
#ifndef RUNMAX_APPEND_HPP
#define RUNMAX_APPEND_HPP

#include <cstdint>

#include "runmax/export.hpp"
#include "runmax/status.hpp"
#include "runmax/tensor.hpp"

namespace runmax {

// Which two channels are rotated together. With w channels rotated, pair p in [0, w/2) is
//   half_split   channels p and p + w/2, as GPT-NeoX and LLaMA checkpoints have them
//   interleaved  channels 2p and 2p + 1, as in the paper and GPT-J
enum class RotaryPairs : std::int32_t { half_split = 0, interleaved = 1 };

// Rotary position embedding, Su et al., RoFormer (arXiv 2104.09864), eq. 34. A row at position t has pair
// (x, y) turned by the angle a = t * base^(-2p / width):
//   x' = x cos a - y sin a,  y' = x sin a + y cos a
// computed in double and rounded once. Channels from `width` on are left as they are.
struct Rotary {
  std::int64_t width = 0;  // channels rotated: even, at most the head dimension; 0 is none
  RotaryPairs pairs = RotaryPairs::half_split;
  double base = 10000.0;
};

// Rotates row i of batch element b as at position start[b] + i. `x` and `out` are (batch, heads, length, dim)
// of one type, f32, f16, bf16 or f64; `out` may be `x` itself, with the same strides. `start` is i32, (batch,
// 1, 1, 1), at least 0. For the queries of new tokens `start` is the cache's lengths before they were
// appended.
RUNMAX_API Status rotate(const TensorView& x, const TensorView& start, const Rotary& rotary,
                         const TensorView& out);

// New keys and values, and the cache that they are appended to. All in host memory.
struct AppendTensors {
  TensorView new_k;  // (batch, kv_heads, new_len, head_dim)
  TensorView new_v;  // (batch, kv_heads, new_len, value_dim)
  // The cache: (batch, kv_heads, capacity, dim), or with a page table pools of pages, (pages, kv_heads,
  // page_size, dim). Of the type of new_k and new_v.
  TensorView k;
  TensorView v;
  TensorView kv_lengths;    // i32, (batch, 1, 1, 1): keys that each batch element has in the cache
  TensorView new_lengths;   // i32, (batch, 1, 1, 1): how many of its new_len rows are appended; empty: all
  TensorView page_table{};  // i32, (batch, 1, 1, pages a batch element may have); empty: not paged
};

// Writes the new rows of batch element b to positions kv_lengths[b], kv_lengths[b] + 1, ... of its cache;
// keys are rotated as at these positions. Nothing else in the cache is read or written. kv_lengths is not
// changed: the lengths to attend with are kv_lengths[b] + new_lengths[b].
//
// Shapes, lengths, capacity and page indices are checked for the whole batch before the first write.
RUNMAX_API Status append_kv(const AppendTensors& tensors, const Rotary& rotary = {});

}  // namespace runmax

#endif  // RUNMAX_APPEND_HPP
