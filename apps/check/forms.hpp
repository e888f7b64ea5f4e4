// A problem's drawn data in the form that it asks for: packed sequences, shuffled pages, lengths.
#pragma once

#include <cstdint>
#include <vector>

#include "check/runner.hpp"
#include "inputs/draw.hpp"
#include "runmax/runmax.hpp"

namespace runmax::check {

// One batch element: its lengths, and where its rows begin in packed tensors.
struct SequencePlace {
  SequenceLengths lengths;
  std::int64_t query_start = 0;
  std::int64_t kv_start = 0;
};
std::vector<SequencePlace> places_of(const Problem& problem, const inputs::HostInputs& drawn);

// Q, K and V, and the tensors of options, a page table and lengths where the problem has them. Pages lie in
// shuffled order among others that nothing uses; those, and what no row fills, are NaN. Table entries beyond
// the used ones are no pages.
HostOperands form_operands(const Problem& problem, const inputs::HostInputs& drawn);

// Packed outputs.
HostTensor form_o(const Problem& problem);
HostTensor form_lse(const Problem& problem);

// dO, drawn as (batch, query_heads, query_len, value_dim), in the form of O.
HostTensor form_dout(const Problem& problem, const std::vector<float>& drawn);

// The dense problem that one batch element is: its lengths, without the form it comes in.
Problem element_problem(const Problem& problem, const SequenceLengths& lengths);

// An answer's tensor from `place` on: row (b, h, i) of the problem.
inline std::int64_t form_index(const Problem& problem, const HostTensor& tensor, const SequencePlace& place,
                               std::int64_t b, std::int64_t h, std::int64_t i) {
  return problem.varlen.empty() ? tensor.index(b, h, i, 0) : tensor.index(0, h, place.query_start + i, 0);
}

// The same for key j of K, V or their gradients; `page_table` is that of the operands.
inline std::int64_t form_key_index(const Problem& problem, const HostTensor& tensor,
                                   const SequencePlace& place, const HostTensor& page_table, std::int64_t b,
                                   std::int64_t h, std::int64_t j) {
  if (problem.page_size > 0) {
    const auto page = static_cast<std::int64_t>(page_table.at(b, 0, 0, j / problem.page_size));
    return tensor.index(page, h, j % problem.page_size, 0);
  }
  return problem.varlen.empty() ? tensor.index(b, h, j, 0) : tensor.index(0, h, place.kv_start + j, 0);
}

}  // namespace runmax::check
