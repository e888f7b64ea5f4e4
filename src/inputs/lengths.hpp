// The lengths of a problem's batch elements, drawn where the problem leaves them to the data (C++20, as
// runmax/problem.hpp is).
#pragma once

#include <cstdint>
#include <vector>

#include "../../include/runmax/problem.hpp"
#include "random.hpp"

namespace runmax {
namespace inputs {

// How many queries and keys each batch element has. With seqused the number of keys is anything from 0 to its
// bound; of four elements or more one has none and one has them all.
inline std::vector<SequenceLengths> draw_lengths(const Problem& p) {
  std::vector<SequenceLengths> lengths = p.varlen;
  if (lengths.empty()) lengths.assign(static_cast<std::size_t>(p.batch), {p.query_len, p.kv_len});
  if (!p.seqused) return lengths;
  Random random(p.seed, 0x6c656e67746873);  // a stream of its own
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const auto bound = static_cast<std::uint64_t>(lengths[b].kv_len) + 1;
    const auto drawn = static_cast<std::int64_t>(random.bits() % bound);
    if (lengths.size() >= 4 && b == 2) continue;
    lengths[b].kv_len = lengths.size() >= 4 && b == 1 ? 0 : drawn;
  }
  return lengths;
}

}  // namespace inputs
}  // namespace runmax
