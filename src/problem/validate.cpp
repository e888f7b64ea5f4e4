// The rules of a problem; the first broken one is reported with argument, rule and value.
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "runmax/problem.hpp"

namespace runmax {
namespace {

Status broken(const std::string& argument, const std::string& rule) {
  return {StatusCode::invalid_argument, argument + ": " + rule};
}

// True if the product of the factors, each >= 0, times 8 bytes fits in int64. A zero counts as one: strides
// and sums of an empty tensor's sizes are computed too.
template <class... Factors>
bool bytes_fit(Factors... factors) {
  std::int64_t product = 8;
  for (std::int64_t factor : {static_cast<std::int64_t>(factors)...}) {
    if (factor == 0) continue;
    if (product > std::numeric_limits<std::int64_t>::max() / factor) return false;
    product *= factor;
  }
  return true;
}

}  // namespace

Status validate(const Problem& p) {
  const struct {
    const char* name;
    std::int64_t value;
  } sizes[] = {{"batch", p.batch},         {"query_heads", p.query_heads}, {"kv_heads", p.kv_heads},
               {"query_len", p.query_len}, {"kv_len", p.kv_len},           {"head_dim", p.head_dim},
               {"value_dim", p.value_dim}, {"page_size", p.page_size}};
  for (const auto& size : sizes)
    if (size.value < 0) return broken(size.name, "must be at least 0, got " + std::to_string(size.value));

  if (p.kv_heads == 0 ? p.query_heads != 0 : p.query_heads % p.kv_heads != 0)
    return broken("kv_heads", "must divide query_heads (query_heads=" + std::to_string(p.query_heads) +
                                  ", kv_heads=" + std::to_string(p.kv_heads) + ")");
  if (!bytes_fit(p.batch, p.query_heads, p.query_len, p.head_dim) ||
      !bytes_fit(p.batch, p.query_heads, p.query_len, p.value_dim) ||
      !bytes_fit(p.batch, p.kv_heads, p.kv_len, p.head_dim) ||
      !bytes_fit(p.batch, p.kv_heads, p.kv_len, p.value_dim))
    return broken("shape", "each tensor must hold fewer than 2^60 elements");
  // Key positions are compared with query positions plus an offset; both must stay inside int64.
  constexpr std::int64_t longest = std::int64_t{1} << 60;
  for (const auto& [name, length] : {std::pair("query_len", p.query_len), std::pair("kv_len", p.kv_len)})
    if (length > longest) return broken(name, "must be at most 2^60, got " + std::to_string(length));

  if (p.window.left < -1 || p.window.right < -1)
    return broken("window", "distances are at least 0, or -1 for unbounded, got " +
                                std::to_string(p.window.left) + "," + std::to_string(p.window.right));
  if (p.window.left > longest || p.window.right > longest)
    return broken("window", "distances are at most 2^60, got " + std::to_string(p.window.left) + "," +
                                std::to_string(p.window.right));
  if (!(p.softcap >= 0) || !std::isfinite(p.softcap))
    return broken("softcap", "must be finite and at least 0 (0 is off), got " + std::to_string(p.softcap));
  if (!(p.dropout >= 0 && p.dropout < 1))
    return broken("dropout", "must be in [0, 1), got " + std::to_string(p.dropout));
  if (p.softmax_scale && !std::isfinite(*p.softmax_scale))
    return broken("softmax_scale", "must be finite, got " + std::to_string(*p.softmax_scale));
  if (p.arithmetic != Arithmetic::fp32_grade && p.dtype != DType::f32)
    return broken("arithmetic", "ieee and tf32 are modes of f32, not of " + std::string(dtype_name(p.dtype)));

  if (!p.varlen.empty()) {
    if (static_cast<std::int64_t>(p.varlen.size()) != p.batch)
      return broken("varlen", "must hold one entry per sequence (batch=" + std::to_string(p.batch) +
                                  ", entries=" + std::to_string(p.varlen.size()) + ")");
    for (const SequenceLengths& s : p.varlen) {
      if (s.query_len < 0 || s.kv_len < 0)
        return broken("varlen", "lengths must be at least 0, got " + std::to_string(s.query_len) + "/" +
                                    std::to_string(s.kv_len));
      if (s.query_len > p.query_len || s.kv_len > p.kv_len)
        return broken("varlen", "query_len and kv_len must be the largest lengths of the batch");
    }
  }
  return {};
}

}  // namespace runmax
