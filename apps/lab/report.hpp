// Everything the lab finds out, as data: the text, the JSON and the exit code are functions of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gate/verdict.hpp"
#include "lab/bench.hpp"
#include "lesson/costs.hpp"
#include "lesson/occupancy.hpp"
#include "lesson/predictions.hpp"
#include "measure/provenance.hpp"
#include "runmax/runmax.hpp"

namespace runmax::lab {

constexpr std::int64_t head_dim = 64;

// ok: ran and passed. failed: ran and broke a gate. refused: no kernel takes the length. skipped: not run,
// for memory or time.
enum class Outcome { ok, failed, refused, skipped };

std::string_view outcome_name(Outcome outcome);

// One path at one length.
struct PathResult {
  std::int64_t n = 0;
  std::string path;    // "naive", "online" or "runmax"
  std::string kernel;  // name in the registry; empty if none was chosen
  std::string computed_as;
  int launches = 0;  // kernel launches of one run; 0 on the CPU
  Outcome outcome = Outcome::skipped;
  std::string reason;  // why it was refused, skipped or failed
  std::string repeat;  // the command that repeats the check

  std::int64_t rows_gated = 0;
  double rtol = 0;
  gate::Verdict against_reference;
  std::optional<gate::Verdict> against_naive;

  std::int64_t peak_bytes = 0;                    // inputs, output and workspace held at once, as allocated
  std::optional<std::int64_t> peak_bytes_system;  // what the system saw
  std::optional<Summary> cold, warm;              // milliseconds
  double fma_share = 0;                           // flops over warm time over the FMA rate; 0 if not by FMA

  bool ran() const { return outcome == Outcome::ok || outcome == Outcome::failed; }
};

// naive over another path at one length, from medians; nothing where one of them did not run.
struct Ratio {
  std::int64_t n = 0;
  std::optional<double> naive_over_online, naive_over_online_cold, naive_over_runmax;
};

// The bytes that online skips, as time, beside the time that it really saves.
struct Skipped {
  std::int64_t n = 0;
  std::int64_t bytes = 0;
  double at_copy_rate_ms = 0;  // bytes over the measured copy bandwidth
  std::optional<double> naive_minus_online_ms;
  std::int64_t naive_matrices_bytes = 0;
  bool fits_cache = false;  // the naive path's workspace fits in the last-level cache
};

// One of the lesson's mistakes, made on purpose.
struct Pitfall {
  std::string name;
  std::optional<bool> shown;  // whether the figures show the harm; nothing if the mistake cannot be made here
  std::string figures;
  std::string meaning;
};

struct Report {
  DeviceFacts device;
  std::string why;
  int threads = 0;  // CPU
  std::uint64_t seed = 0;
  std::string date;  // UTC, ISO 8601
  std::string driver;
  std::string method_cold, method_warm;
  std::vector<KernelSources> sources;

  MachineLimits limits;
  std::vector<lesson::Costs> costs;
  std::vector<lesson::ResourceFigures> resources;
  std::string why_no_resources;
  std::vector<PathResult> results;
  std::vector<Pitfall> pitfalls;  // empty unless asked for

  double ridge() const { return lesson::ridge_point(limits.fma_rate, limits.copy_rate.median); }
  const PathResult* find(std::int64_t n, std::string_view path) const;
};

bool any_ran(const Report& report);

// True if at least one path ran and every path that ran passed every gate.
bool passed(const Report& report);

std::vector<Ratio> ratios(const Report& report);
std::vector<Skipped> skipped(const Report& report);
std::vector<lesson::Prediction> predictions(const Report& report);

// Lengths and paths whose warm time is hardly more than their launches back to back: there the host is timed,
// not the kernels. Empty if there are none.
std::string launch_bound_note(const Report& report);

// What the figures mean, in plain words.
std::string meaning(const Report& report);

// flops over seconds over the peak. A share above 1 is a wrong measurement, never a fast kernel: a Status
// that says so. `slack` covers the spread of both clocks.
Result<double> share_of_peak(double flops, double seconds, double peak);
constexpr double share_slack = 1.05;

// The report as text, in the lab's order: bytes before any time.
struct TextStyle {
  bool color = false;
};
std::string machine_text(const Report& report, TextStyle style);
std::string costs_text(const Report& report, TextStyle style);
std::string gates_text(const Report& report, TextStyle style);
std::string resources_text(const Report& report, TextStyle style);
std::string results_text(const Report& report, TextStyle style);
std::string conclusions_text(const Report& report, TextStyle style);

// The report as JSON, schema "runmax.lab", ending in a newline.
std::string report_json(const Report& report);

}  // namespace runmax::lab
