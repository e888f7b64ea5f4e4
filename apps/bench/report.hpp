// Everything a bench finds out, as data: the text, the JSON and the exit code are functions of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/contender.hpp"
#include "bench/limits.hpp"
#include "bench/workload.hpp"
#include "measure/cache_state.hpp"
#include "measure/provenance.hpp"
#include "measure/sampling.hpp"
#include "runmax/runmax.hpp"

namespace runmax::bench {

// What holds a workload back at most.
enum class Limit { fma, read };

std::string_view limit_name(Limit limit);

// One cache state of one implementation.
struct Timing {
  std::vector<double> seconds;       // of one run, one a round
  std::vector<double> fma_seconds;   // the flops at the FMA peak measured beside that sample
  std::vector<double> read_seconds;  // the bytes at the read bandwidth measured beside it
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
  Timing warm, cold;
  int shared_core_samples = 0;  // taken although the FMA peak did not scale with the threads beside them

  const Timing& timing(measure::CacheState cache) const {
    return cache == measure::CacheState::warm ? warm : cold;
  }
  Timing& timing(measure::CacheState cache) { return cache == measure::CacheState::warm ? warm : cold; }
  bool timed() const { return !warm.seconds.empty() || !cold.seconds.empty(); }
};

struct Limits {
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
  std::vector<measure::CacheState> caches;  // those that were timed
  Limits limits;
  int rounds = 0;
  double seconds = 0;  // that the rounds took

  bool passed() const;
  double flops(std::size_t problem) const { return pass_flops(problems[problem], pass); }
  double bytes(std::size_t problem) const { return pass_bytes(problems[problem], pass); }
};

// Seconds of one entry over those of another, round by round: the median and its spread. Nothing if one of
// them was not timed.
std::optional<measure::Summary> paired_ratio(const Timing& numerator, const Timing& denominator);

// A share above 1 is a wrong measurement, never a fast kernel: the entry's outcome says so.
void judge_shares(Entry& entry);

// How times are taken, in sentences.
std::string method();

// At most 100 columns.
std::string text(const Report& report);

// Schema "runmax.bench", ending in a newline.
std::string json(const Report& report);

}  // namespace runmax::bench
