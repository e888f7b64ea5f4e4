// What a kernel serves, as data, and the first thing a problem asks for beyond it.
#pragma once

#include <optional>
#include <string>

#include "runmax/problem.hpp"

namespace runmax {

// Every member defaults to "does not serve": a kernel lists what it does.
struct Features {
  bool f32 = false, f16 = false, bf16 = false, f64 = false, e4m3 = false, i8 = false;
  bool ieee = false, tf32 = false;
  bool causal_bottom_right = false, causal_top_left = false, window = false;
  bool softcap = false, alibi = false, sink = false, mask = false, bias = false, dropout = false;
  bool varlen = false, paged = false, seqused = false, batch_invariant = false;
};

// The same with every option and form of a problem.
constexpr Features with_every_option(Features serves) {
  serves.causal_bottom_right = serves.causal_top_left = serves.window = true;
  serves.softcap = serves.alibi = serves.sink = serves.mask = serves.bias = serves.dropout = true;
  serves.varlen = serves.paged = serves.seqused = serves.batch_invariant = true;
  return serves;
}

// "softcap: not served (softcap=30)" for the first option of the problem that is not in the set.
std::optional<std::string> first_unserved(const Problem& problem, const Features& serves);

}  // namespace runmax
