// Everything a bench finds out, as data: the text, the JSON and the exit code are functions of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/contender.hpp"
#include "bench/limits.hpp"
#include "bench/workload.hpp"
#include "measure/cache_state.hpp"
#include "measure/provenance.hpp"
#include "measure/sampling.hpp"
#include "runmax/runmax.hpp"

namespace runmax::bench {

// What holds a workload back at most: multiply-adds in FP32; on a GPU a third of the tensor cores' fp16 rate
// for f32, as three products of fp16 planes make one, and all of it for 16-bit types; reading.
enum class Limit { fma, tensor_third, tensor, read };

std::string_view limit_name(Limit limit);

// One cache state of one implementation.
struct Timing {
  std::vector<double> seconds;          // of one run, one a round
  std::vector<double> compute_seconds;  // the flops at the peak measured beside that sample
  std::vector<double> read_seconds;     // the bytes at the read bandwidth measured beside it
  Limit compute = Limit::fma;           // which peak
  int runs_per_sample = 1;

  measure::Summary time() const;
  // The least time that the machine could take, over each sample. A limit is a maximum: where it came out
  // lower beside a sample than in the median of the rounds, something was in the way, and the median counts.
  std::vector<double> shares() const;
  double share() const;       // the median
  double best_share() const;  // of the best round
  Limit limit() const;
};

// ok: timed. rejected: a gate failed, and it was not timed. wrong: the times are no measurement. refused: it
// does not serve the problem.
enum class Outcome { ok, rejected, wrong, refused };

std::string_view outcome_name(Outcome outcome);

// One implementation on one problem.
struct Entry {
  std::size_t problem = 0;  // in Report::problems
  Identity identity;
  Outcome outcome = Outcome::ok;
  std::string reason;  // why it is not ok, in one line
  std::string repeat;  // the command that repeats the check
  std::string gate;    // the one whose fraction is given
  double gate_fraction = 0;
  std::vector<std::pair<std::string, double>> gates;  // every one that judged it, with its fraction
  Timing warm, cold, graph;
  int shared_core_samples = 0;  // taken although the FMA peak did not scale with the threads beside them

  const Timing& timing(Way way) const { return way == Way::warm ? warm : way == Way::cold ? cold : graph; }
  Timing& timing(Way way) { return way == Way::warm ? warm : way == Way::cold ? cold : graph; }
  bool timed() const { return !warm.seconds.empty() || !cold.seconds.empty() || !graph.seconds.empty(); }
};

struct Limits {
  // On a GPU, the medians of the whole session; 0 on the CPU.
  double fma_rate = 0;                                 // FP32 flops per second
  double tensor_rate = 0;                              // fp16 flops per second
  std::vector<Scaling> scaling;                        // one for each number of threads
  measure::Summary copy_rate;                          // bytes read plus written per second, most threads
  std::int64_t copy_bytes = 0;                         // of each of the two buffers
  std::vector<measure::Summary> read_warm, read_cold;  // bytes per second, for each problem, most threads

  // Nothing if it was not measured.
  const measure::Summary* read(std::size_t problem, measure::CacheState cache) const;
};

struct Report {
  DeviceFacts device;
  std::string date;
  Pass pass = Pass::forward;
  std::vector<Problem> problems;
  std::vector<Entry> entries;
  std::vector<Way> ways;  // those that were timed
  Limits limits;
  int rounds = 0;
  double seconds = 0;  // that the rounds took

  bool passed() const;
  // By what was drawn where that was counted, else by the formulas.
  std::vector<Work> work{};  // of each problem, or empty
  double flops(std::size_t problem) const {
    return work.empty() ? pass_flops(problems[problem], pass) : work[problem].flops;
  }
  double bytes(std::size_t problem) const {
    return work.empty() ? pass_bytes(problems[problem], pass) : work[problem].bytes;
  }
};

// Seconds of one entry over those of another, round by round: the median and its spread. Nothing if one of
// them was not timed.
std::optional<measure::Summary> paired_ratio(const Timing& numerator, const Timing& denominator);

// A share above 1 is a wrong measurement, never a fast kernel: the entry's outcome says so.
void judge_shares(Entry& entry);

// How times are taken on such a device, in sentences.
std::string method(DeviceKind kind);

// What took the times: "host", "events" or "graph".
std::string_view clock_name(DeviceKind kind, Way way);

// At most 100 columns.
std::string text(const Report& report);

// Schema "runmax.bench", ending in a newline.
std::string json(const Report& report);

}  // namespace runmax::bench
