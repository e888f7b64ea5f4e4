#include "judge/report.hpp"

#include <fmt/core.h>

namespace runmax::judge {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::accepted:
      return "accepted";
    case Verdict::rejected:
      return "rejected";
    case Verdict::build_failed:
      return "build-failed";
    case Verdict::crashed:
      return "crashed";
    case Verdict::not_run:
      return "not-run";
  }
  return "";
}

std::optional<double> Report::gate_fraction_vs_naive_1024() const {
  for (const CaseResult& one : cases)
    if (one.name == "exercise-1024" && one.gated) return one.against_naive.gate_fraction;
  return std::nullopt;
}

int Report::exit_status() const {
  switch (verdict) {
    case Verdict::accepted:
      return 0;
    case Verdict::rejected:
      return 1;
    case Verdict::build_failed:
      return 5;
    case Verdict::crashed:
      return 6;
    case Verdict::not_run:
      return 4;
  }
  return 3;
}

std::string Report::repeat(const std::string& case_name) const {
  return fmt::format("runmax judge {} --case {} --seed {}", file, case_name, seed);
}

}  // namespace runmax::judge
