// The table of planted faults, which input and which gate are meant to catch each, and what it passes.
#pragma once

#include <array>
#include <cmath>
#include <ostream>

#include "head_case.hpp"
#include "kernels/lesson/online/faults.hpp"

namespace runmax {
namespace lesson {

// accuracy: every value is finite and some are wrong. finiteness: NaN or infinity where a number is wanted.
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
  const bool finite = verdicts.lesson.finite;
  if (mutant.catcher == Catcher::accuracy && !finite)
    return "it is not finite, so accuracy is not what caught it";
  if (mutant.catcher == Catcher::finiteness && finite) return "every value is finite";
  return "";
}

}  // namespace lesson
}  // namespace runmax
