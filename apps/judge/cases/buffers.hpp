// Sets of arrays for calls of one case: each set has q, k, v, o, lse and workspace of its own, with pages of
// their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "judge/candidate/manifest.hpp"
#include "judge/cases/data.hpp"
#include "judge/session/session.hpp"

namespace runmax::judge {

// What outputs and workspace hold before a call: a NaN, and 2.71, to which an answer may be added and still
// show.
enum class Poison : std::uint32_t { nan = 0x7fd3a1b7u, number = 0x402d70a4u };

struct SetOfArrays {
  Problem problem;
  Placement placement = Placement::front;
};

class Buffers {
 public:
  static Result<Buffers> make(const std::vector<SetOfArrays>& sets, const Manifest& manifest);

  const Arena& inputs() const { return inputs_; }
  const Arena& outputs() const { return outputs_; }

  void put(std::size_t set, const Inputs& inputs) const;
  float* q(std::size_t set) const { return inputs_.floats(3 * set); }
  float* k(std::size_t set) const { return inputs_.floats(3 * set + 1); }
  float* v(std::size_t set) const { return inputs_.floats(3 * set + 2); }
  // Fills outputs, workspace and what lies around them.
  void poison(std::size_t set, Poison poison) const;
  Call call(std::size_t set) const;

  std::vector<float> out(std::size_t set) const;
  std::vector<float> lse(std::size_t set) const;  // empty if not claimed
  const float* out_memory(std::size_t set) const { return outputs_.floats(per_set_ * set); }
  std::int64_t workspace_bytes(std::size_t set) const { return workspace_[set]; }

  // "wrote 8 bytes behind the end of o", from the bands around a set's outputs; "" if they are untouched.
  std::string written_outside(std::size_t set) const;
  // A fault's place: "input-written" or "out-of-bounds" and a sentence, or nothing that is known.
  struct Finding {
    std::string name, sentence;
  };
  Finding fault(const Outcome& outcome) const;
  // A device's copy of an input, or what lies around it, that is no longer what it was; nothing on a host.
  Finding written_inputs(std::size_t set) const;

 private:
  Arena inputs_, outputs_;
  std::vector<Problem> problems_;
  std::vector<std::int64_t> workspace_;
  bool lse_ = false;
  std::size_t per_set_ = 3;  // o, lse, workspace; on a device also q, k, v as they are seen after the call
  const Manifest* manifest_ = nullptr;
};

}  // namespace runmax::judge
