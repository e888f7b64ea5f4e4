// Inputs of a problem as its text draws them.
#pragma once

#include "inputs/draw.hpp"
#include "kit/case.hpp"

namespace runmax::kit {

inline Operands drawn(const Problem& p) {
  const inputs::HostInputs in = inputs::draw(p);
  return {packed_tensor(q_shape(p), in.q), packed_tensor(k_shape(p), in.k), packed_tensor(v_shape(p), in.v)};
}

}  // namespace runmax::kit
