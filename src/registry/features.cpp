#include "registry/features.hpp"

namespace runmax {
namespace {

bool serves_dtype(const Features& serves, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return serves.f32;
    case DType::f16:
      return serves.f16;
    case DType::bf16:
      return serves.bf16;
    case DType::f64:
      return serves.f64;
    case DType::e4m3:
      return serves.e4m3;
    case DType::i8:
      return serves.i8;
    case DType::i32:
    case DType::boolean:
      return false;
  }
  return false;
}

}  // namespace

std::optional<std::string> first_unserved(const Problem& p, const Features& serves) {
  const auto refuse = [](const std::string& option) { return option + " is not served"; };
  if (!serves_dtype(serves, p.dtype)) return refuse("dtype " + std::string(dtype_name(p.dtype)));
  if (p.arithmetic == Arithmetic::ieee && !serves.ieee) return refuse("arithmetic ieee");
  if (p.arithmetic == Arithmetic::tf32 && !serves.tf32) return refuse("arithmetic tf32");
  if (p.causal == Causal::bottom_right && !serves.causal_bottom_right) return refuse("causal");
  if (p.causal == Causal::top_left && !serves.causal_top_left) return refuse("causal=top_left");
  if (p.window != Window{} && !serves.window) return refuse("window");
  if (p.softcap != 0 && !serves.softcap) return refuse("softcap");
  if (p.alibi && !serves.alibi) return refuse("alibi");
  if (p.sink && !serves.sink) return refuse("sink");
  if (p.mask && !serves.mask) return refuse("mask");
  if (p.bias && !serves.bias) return refuse("bias");
  if (p.dropout != 0 && !serves.dropout) return refuse("dropout");
  if (!p.varlen.empty() && !serves.varlen) return refuse("varlen");
  if (p.page_size != 0 && !serves.paged) return refuse("paged");
  if (p.seqused && !serves.seqused) return refuse("seqused");
  if (p.batch_invariant && !serves.batch_invariant) return refuse("batch_invariant");
  return std::nullopt;
}

}  // namespace runmax
