// dO, the gradient that comes back to the output: standard normal, from a stream of its own. C++20, as
// runmax/problem.hpp is.
#pragma once

#include <cstdint>
#include <vector>

#include "../../include/runmax/problem.hpp"
#include "kinds.hpp"
#include "random.hpp"
#include "stream.hpp"

namespace runmax {
namespace inputs {

// Packed, (batch, query_heads, query_len, value_dim). Q, K and V of the problem are what they are without it.
inline std::vector<float> draw_dout(const Problem& p) {
  const std::int64_t of_head = p.query_len * p.value_dim;
  std::vector<float> dout(static_cast<std::size_t>(p.batch * p.query_heads * of_head));
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.query_heads; ++h)
      draw_normal(head_stream(p.seed, Operand::dout, b, h), of_head,
                  dout.data() + (b * p.query_heads + h) * of_head);
  return dout;
}

}  // namespace inputs
}  // namespace runmax
