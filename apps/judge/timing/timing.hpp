// How long a candidate takes, beside the naive path, in turns, on data that nobody has seen before.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "judge/candidate/manifest.hpp"
#include "measure/sampling.hpp"
#include "runmax/status.hpp"

namespace runmax::judge {

struct TimingOptions {
  std::string module, symbol = "attention";
  std::uint32_t user = 0;
  std::uint64_t seed = 0;
  int threads = 1;      // of the naive path; the candidate runs on as many cores
  double seconds = 30;  // for all lengths together
  std::int64_t longest = 32768;
  std::int64_t full_rows = 2048;  // up to this length every row of every output is checked
  int rounds = 5;
  std::function<void(std::int64_t n, double share)> progress = [](std::int64_t, double) {};
};

struct TimingRow {
  std::int64_t n = 0;
  measure::Summary candidate_us, naive_us;  // of one call
  double naive_over_candidate = 0;
  double floor_us = 0;        // flops over the measured FMA rate
  double share_of_limit = 0;  // floor over time
  std::int64_t outputs_checked = 0, rows_checked = 0;
};

struct TimingResult {
  std::vector<TimingRow> rows;
  double fma_rate = 0;
  std::string why_stopped;  // why no longer length was tried
  std::string method;
  // A wrong output, an impossible time, an end of the worker: by the name of a finding, and a sentence.
  std::string finding, message;
  // The shortest length from which on the candidate was ahead at every length tried.
  std::optional<std::int64_t> crossover() const;
};

// Powers of two from 64 on that the manifest serves, as far as time and memory allow.
Result<TimingResult> time_candidate(const Manifest& manifest, const TimingOptions& options);

}  // namespace runmax::judge
