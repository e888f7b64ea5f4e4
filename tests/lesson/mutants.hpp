// The table of planted faults, which input and which gate are meant to catch each, and what it passes.
#pragma once

#include <array>
#include <cmath>
#include <ostream>

#include "head_case.hpp"
#include "kernels/lesson/online/faults.hpp"

namespace runmax {
namespace lesson {

// The gate that is meant to catch a fault. accuracy: the lesson gate and the hostile gate, on an answer that
// the finiteness gate lets through. finiteness: that gate itself, NaN or infinity where a number is wanted.
enum class Catcher { accuracy, finiteness };

struct Mutant {
  const char* name;
  int fault;  // index of the rule in the table of launch_mutant; 0 is the right rule
  HeadData caught_on;
  Catcher catcher;
  std::vector<float> (*host_answer)(const HeadCase&);
};

inline std::ostream& operator<<(std::ostream& out, const Mutant& mutant) { return out << mutant.name; }

inline const std::array<Mutant, 8>& mutants() {
  static const std::array<Mutant, 8> list{{
      {OutputNotRescaled::name, 1, HeadData::loud_last, Catcher::accuracy, host_answer<OutputNotRescaled>},
      {NothingRescaled::name, 2, HeadData::loud_last, Catcher::accuracy, host_answer<NothingRescaled>},
      {NormalizedPerTile::name, 3, HeadData::loud_last, Catcher::accuracy, host_answer<NormalizedPerTile>},
      {SumBeforeMax::name, 4, HeadData::loud_last, Catcher::finiteness, host_answer<SumBeforeMax>},
      {TileAgainstItself::name, 5, HeadData::loud_last, Catcher::accuracy, host_answer<TileAgainstItself>},
      {LastTileDropped::name, 6, HeadData::loud_last, Catcher::accuracy, host_answer<LastTileDropped>},
      {MaxStartsAtZero::name, 7, HeadData::far_below_zero, Catcher::finiteness, host_answer<MaxStartsAtZero>},
      {DenominatorUnderflows::name, 8, HeadData::loud_last, Catcher::finiteness,
       host_answer<DenominatorUnderflows>},
  }};
  return list;
}

// "" if the verdicts reject the answer in the way that is meant to catch the mutant, else what is wrong.
inline std::string rejected_as_meant(const Mutant& mutant, const Verdicts& verdicts) {
  if (verdicts.lesson.passed) return "the lesson gate accepts it";
  if (verdicts.hostile.passed) return "the hostile gate accepts it";
  if (!verdicts.lesson.has_offender) return "no offending element is named";
  if (mutant.catcher == Catcher::accuracy && !verdicts.finiteness.passed)
    return "the finiteness gate rejects it before accuracy is asked";
  if (mutant.catcher == Catcher::finiteness && verdicts.finiteness.passed)
    return "the finiteness gate accepts it";
  return "";
}

}  // namespace lesson
}  // namespace runmax
