// Honest: the library itself behind the judge's signature, linked into a library that is judged as it is.
// Finding: none
//
// runmax-judge
// head_dim: 64,80,128
// heads: grouped
// unequal: yes
// causal: yes
// lse: yes
// key_tile: 64
#include <cstdint>

#include "runmax/runmax.hpp"

extern "C" __attribute__((visibility("default"))) int attention(
    const float* q, const float* k, const float* v, float* o, float* lse, std::int64_t batch,
    std::int64_t heads, std::int64_t kv_heads, std::int64_t sq, std::int64_t sk, std::int64_t d, float scale,
    int causal, void* /*workspace*/, void* /*stream*/) {
  using runmax::DType;
  using runmax::Layout;
  if (d != 64 && d != 80 && d != 128) return 1;
  runmax::Tensors tensors;
  tensors.q = runmax::packed_view(q, DType::f32, {batch, heads, sq, d}, Layout::bhsd);
  tensors.k = runmax::packed_view(k, DType::f32, {batch, kv_heads, sk, d}, Layout::bhsd);
  tensors.v = runmax::packed_view(v, DType::f32, {batch, kv_heads, sk, d}, Layout::bhsd);
  tensors.o = runmax::packed_view(o, DType::f32, {batch, heads, sq, d}, Layout::bhsd);
  if (lse) tensors.lse = runmax::packed_view(lse, DType::f32, {batch, heads, sq, 1}, Layout::bhsd);
  runmax::AttentionOptions options;
  options.options.softmax_scale = static_cast<double>(scale);
  options.options.causal = causal != 0 ? runmax::Causal::bottom_right : runmax::Causal::none;
  return runmax::attention(tensors, options).ok() ? 0 : 1;
}
