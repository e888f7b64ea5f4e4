// What the judge asks of a candidate, one named case at a time, and what came of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gate/verdict.hpp"
#include "judge/candidate/manifest.hpp"
#include "judge/cases/data.hpp"
#include "judge/confine/confine.hpp"
#include "judge/diagnosis/diagnosis.hpp"
#include "judge/worker/protocol.hpp"

namespace runmax::judge {

// How often a case calls the candidate, and with what.
enum class Sequence {
  placements,     // the same data five times: three places, two kinds of poison, and two of them again
  twice,          // the same data in two places over two kinds of poison: for long calls
  same_buffers,   // other data in the same buffers, then the first data elsewhere
  many_calls,     // new data in every one of twelve calls
  memory_growth,  // one length, then twice that; what memory they took
  refusal,        // one call outside of the claim: it must be refused, or right
};

struct Case {
  std::string name, reason;
  Problem problem;
  diagnosis::Bound bound = diagnosis::Bound::hostile;
  Sequence sequence = Sequence::placements;
  std::function<void(const Problem&, std::uint64_t seed, Inputs&)> draw;
};

// Every case that the manifest's claim gives rise to, the exercise's own first.
std::vector<Case> cases_for(const Manifest& manifest);

enum class CaseOutcome { passed, failed, crashed, hung };
std::string_view case_outcome_name(CaseOutcome outcome);

struct CaseResult {
  std::string name, reason, problem;
  CaseOutcome outcome = CaseOutcome::passed;
  std::string finding;  // what a trap proved, by its stable name; else empty
  std::string message;  // one sentence, with element, got, want, bound, where something is wrong
  // Trivial answers that pass this input: to them it is blind, so it proves nothing about them.
  std::vector<std::string> blind_to;
  bool gated = false;                              // an output was compared
  gate::Verdict against_reference, against_naive;  // the worst of all calls
  bool has_naive = false;
  std::string rule;
  int calls = 0;
  bool same_bits = true;  // the same call twice gave the same bits
  // Bytes beyond its arguments that the candidate held at most at the first and at the second length.
  std::int64_t memory_first = -1, memory_second = -1;
  std::int64_t length_first = 0, length_second = 0;
  // For the diagnosis, if the answer was wrong. `shared` keeps what the evidence points at.
  struct Wrong {
    Problem problem;
    Inputs inputs;
    Truth truth;
    std::vector<float> out, lse;
    diagnosis::Evidence evidence(const Manifest& manifest, diagnosis::Bound bound) const;
  };
  diagnosis::Bound bound = diagnosis::Bound::hostile;
  std::shared_ptr<Wrong> wrong;  // the first wrong answer
  std::shared_ptr<Wrong> right;  // an answer of a case that passed: it sharpens a diagnosis
  bool passed() const { return outcome == CaseOutcome::passed; }
};

struct CaseOptions {
  std::string module;
  std::string symbol = "attention";
  Entry entry = Entry::host_function;
  std::int32_t device = 0;
  std::uint32_t user = 0;  // id that the worker takes on; 0: the judge's own
  std::uint64_t seed = 0;
  int threads = 1;         // of the reference and the naive path
  std::int32_t cores = 1;  // of the candidate
  double call_seconds = 10;
  bool power = true;  // also ask which trivial answers would pass
};

// Runs one case in a worker of its own, and says what confined it. A status only if this machine cannot do
// it.
Result<CaseResult> run_case(const Case& one, const Manifest& manifest, const CaseOptions& options,
                            Confinement* confinement = nullptr, Resources* resources = nullptr);

// The trivial answers that pass the gates of this input, by name.
std::vector<std::string> blind_spots(const Problem& problem, const Inputs& inputs, const Truth& truth,
                                     diagnosis::Bound bound, std::int64_t key_tile);

}  // namespace runmax::judge
