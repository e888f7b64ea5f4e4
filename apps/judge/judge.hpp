// Judges a candidate: builds it, runs every case, names what is wrong, times what is right.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "judge/report.hpp"

namespace runmax::judge {

// How long an honest kernel may take: a minute, or ten.
enum class Effort { quick, full };

struct JudgeOptions {
  Effort effort = Effort::quick;
  std::optional<std::uint64_t> seed;  // nothing: drawn by the system once the candidate is built
  int gpu = 0;                        // index of the GPU of a CUDA candidate
  int threads = 1;                    // cores of the candidate, threads of the naive path
  int helpers = 1;                    // threads of the reference
  std::string only_case;              // its name; empty: all
  std::int64_t longest = 0;           // of the lengths that are timed; 0: as far as time allows
  // "case 12 of 50", and the share of all work done.
  std::function<void(const std::string& stage, double share)> progress = [](const std::string&, double) {};
};

// A status if the judge itself cannot work: no such file, a broken manifest, no compiler. Whatever the
// candidate does is a report.
Result<Report> judge(const std::string& path, const JudgeOptions& options);

}  // namespace runmax::judge
