// What the judge found out, as data: text, JSON and exit code are functions of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "judge/candidate/build.hpp"
#include "judge/cases/case.hpp"
#include "judge/timing/timing.hpp"

namespace runmax::judge {

enum class Verdict { accepted, rejected, build_failed, crashed, not_run };

// "accepted", "rejected", "build-failed", "crashed", "not-run".
std::string_view verdict_name(Verdict verdict);

// One guard between candidate and machine, and why it does not stand, if it does not.
struct GuardLine {
  std::string name, purpose;
  bool enforced = false;
  std::string why;
};

struct Report {
  std::string file, sha256;
  Manifest manifest;
  std::string device;
  int threads = 1;
  std::uint64_t seed = 0;
  bool seed_drawn = true;  // by the system; false: it was given
  std::string effort, date;
  std::string only_case;

  Verdict verdict = Verdict::not_run;
  std::string reason;       // one sentence
  std::string diagnosis;    // a stable name, or ""
  std::string explanation;  // what the diagnosis says in full, or ""
  std::string picture;      // where the output is wrong, as text
  std::string map_case;     // the case that the picture shows
  diagnosis::ErrorMap map;

  std::string build_command, build_output;
  double build_seconds = 0;
  std::vector<CaseResult> cases;
  std::size_t cases_left_out = 0;  // after failures that took the time of all
  Resources resources;             // of a kernel
  TimingResult timing;
  bool timed = false;
  std::string why_not_timed;
  std::vector<GuardLine> isolation;

  // The exercise's two figures.
  std::optional<double> gate_fraction_vs_naive_1024() const;
  std::optional<std::int64_t> crossover() const { return timing.crossover(); }
  int exit_status() const;
  std::string repeat(const std::string& case_name) const;  // the command that repeats a case
};

// 72 columns or so; the first three lines are verdict, reason, and the two figures.
struct TextStyle {
  bool color = false;
};
std::string report_text(const Report& report, TextStyle style);

// Schema "runmax.judge", ending in a newline.
std::string report_json(const Report& report);

}  // namespace runmax::judge
