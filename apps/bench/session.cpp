#include "bench/session.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench/engine.hpp"
#include "bench/rounds.hpp"
#include "bench/verdicts.hpp"
#include "check/check.hpp"
#include "measure/cpu_cache.hpp"

namespace runmax::bench {
namespace {

using Clock = std::chrono::steady_clock;
using measure::CacheState;

// A sample lasts at least this long, so that the clock's own resolution and a single interruption count for
// little.
constexpr double sample_seconds = 2e-3;
constexpr int most_runs = 1000;
// After so long a run nothing that one before it could leave in a cache matters.
constexpr double long_run_seconds = 0.2;
// A sample beside which the FMA peak does not scale is taken again so often.
constexpr int most_retakes = 3;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// One implementation at work on one problem.
struct Lane {
  std::size_t entry = 0;  // in Report::entries
  std::unique_ptr<Contender> contender;
  double run_seconds = 0;  // of a first run, roughly
};

class Session {
 public:
  Session(const std::vector<Problem>& problems, const SessionOptions& options) : options_(options) {
    report_.device = options.facts;
    report_.date = measure::now_utc();
    report_.problems = problems;
    for (const CacheState cache : options.caches)
      report_.ways.push_back(cache == CacheState::warm ? Way::warm : Way::cold);
    report_.pass = options.pass;
    most_threads_ = *std::max_element(options.threads.begin(), options.threads.end());
  }

  Result<Report> run() {
    for (std::size_t p = 0; p < report_.problems.size(); ++p)
      if (Status status = verify(p); !status.ok()) return status;
    if (Status status = measure_limits(); !status.ok()) return status;
    if (Status status = time_all(); !status.ok()) return status;
    for (Lane& lane : lanes_) {
      Entry& entry = report_.entries[lane.entry];
      Result<bool> unchanged = lane.contender->unchanged();
      if (!unchanged.ok()) return unchanged.status();
      // What was timed must be what was gated.
      if (!unchanged.value()) {
        entry.outcome = Outcome::rejected;
        entry.reason = "the output of the last timed run has other bits than the one that was gated";
      }
      judge_shares(entry);
    }
    return std::move(report_);
  }

 private:
  // Lays out a problem, runs every implementation once and puts the answers before the gates; those that pass
  // get a lane.
  Status verify(std::size_t at) {
    const Problem& problem = report_.problems[at];
    const std::string name = to_text(problem);
    if (problem.batch == 0 || problem.query_heads == 0 || problem.query_len == 0)
      return {StatusCode::invalid_argument,
              "bench: " + name + " has no query row, so there is nothing to time"};
    options_.progress(name + ": drawing inputs");
    Result<Workload> made = make_workload(problem, options_.pass, Device{}, ledger_);
    if (!made.ok()) return made.status();
    workloads_.push_back(std::make_unique<Workload>(std::move(made).value()));
    const Workload& workload = *workloads_.back();
    report_.work.push_back(workload.work);

    std::vector<Lane> lanes;
    for (const std::string& kernel : options_.kernels)
      for (const int threads : options_.threads) {
        Result<std::unique_ptr<Contender>> engine =
            make_engine(workload, options_.facts, {.kernel = kernel, .threads = threads}, ledger_);
        if (!engine.ok()) return engine.status();
        add_entry(at, std::move(engine).value(), lanes);
      }
    if (options_.others) {
      Result<Others> others = options_.others(workload);
      if (!others.ok()) return others.status();
      for (std::unique_ptr<Contender>& other : others.value().contenders)
        add_entry(at, std::move(other), lanes);
      for (const Refused& refused : others.value().refused) {
        Entry entry;
        entry.problem = at;
        entry.identity = refused.identity;
        entry.outcome = Outcome::refused;
        entry.reason = refused.reason;
        report_.entries.push_back(std::move(entry));
      }
    }

    std::vector<Output> outputs;
    for (const Lane& lane : lanes) {
      const Entry& entry = report_.entries[lane.entry];
      options_.progress(fmt::format("{}: {} on {} thread{} runs", name, entry.identity.kernel,
                                    entry.identity.threads, entry.identity.threads == 1 ? "" : "s"));
      Result<Output> output = lane.contender->output();
      if (!output.ok()) return output.status();
      outputs.push_back(std::move(output).value());
    }
    options_.progress(name + ": comparing with the double-precision reference");
    std::vector<Entry*> entries;
    for (const Lane& lane : lanes) entries.push_back(&report_.entries[lane.entry]);
    judge_outputs(workload, options_.facts, 0, std::move(outputs), entries);
    for (Lane& lane : lanes)
      if (report_.entries[lane.entry].outcome == Outcome::ok) lanes_.push_back(std::move(lane));
    return {};
  }

  void add_entry(std::size_t at, std::unique_ptr<Contender> contender, std::vector<Lane>& lanes) {
    Entry entry;
    entry.problem = at;
    entry.identity = contender->identity();
    if (entry.identity.implementation == "runmax" && options_.pass == Pass::forward)
      entry.repeat = check::repeat_command(
          report_.problems[at], options_.facts,
          {.kernel = entry.identity.kernel, .threads = entry.identity.threads}, entry.identity.kernel);
    lanes.push_back({report_.entries.size(), std::move(contender), 0});
    report_.entries.push_back(std::move(entry));
  }

  Status measure_limits() {
    std::vector<int> counts = options_.threads;
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    for (const int threads : counts) {
      options_.progress(
          fmt::format("measuring the FMA peak on {} thread{}", threads, threads == 1 ? "" : "s"));
      report_.limits.scaling.push_back(measure_scaling(threads));
    }
    for (const std::unique_ptr<Workload>& workload : workloads_) {
      Result<ReadLimit> read = ReadLimit::make(workload->bytes());
      if (!read.ok()) return read.status();
      reads_.push_back(std::move(read).value());
    }
    // Two buffers of the cache's size hold twice what it can keep; a machine short of memory takes less.
    report_.limits.copy_bytes =
        options_.copy_bytes > 0
            ? options_.copy_bytes
            : std::min(std::max<std::int64_t>(measure::last_level_cache_bytes(), std::int64_t{128} << 20),
                       std::max<std::int64_t>(options_.facts.free_bytes / 8, std::int64_t{1} << 20));
    return {};
  }

  Status time_all() {
    Result<measure::CopyProbe> copy =
        measure::CopyProbe::make(static_cast<std::size_t>(report_.limits.copy_bytes));
    if (!copy.ok()) return copy.status();
    std::vector<double> copies;
    std::vector<std::vector<double>> warm_reads(reads_.size()), cold_reads(reads_.size());
    for (Lane& lane : lanes_)
      if (Status status = choose_runs(lane); !status.ok()) return status;
    const Clock::time_point begin = Clock::now();
    const Rounds rounds(options_.rounds, options_.time_limit_s);
    for (int round = 0; !lanes_.empty() && !rounds.enough(round, seconds_since(begin)); ++round) {
      options_.done(rounds.share(round, seconds_since(begin)));
      options_.progress(fmt::format("timing, round {} of {}", round + 1, rounds.wanted()));
      copies.push_back(copy.value().sample(most_threads_));
      for (std::size_t l = 0; l < lanes_.size(); ++l) {
        Lane& lane = lanes_[round % 2 == 0 ? l : lanes_.size() - 1 - l];
        for (const CacheState cache : options_.caches) {
          const std::size_t problem = report_.entries[lane.entry].problem;
          const int threads = report_.entries[lane.entry].identity.threads;
          const double read = reads_[problem].sample(threads, cache);
          if (threads == most_threads_)
            (cache == CacheState::warm ? warm_reads : cold_reads)[problem].push_back(read);
          if (Status status = sample(lane, cache, read); !status.ok()) return status;
        }
      }
      report_.rounds = round + 1;
    }
    report_.seconds = seconds_since(begin);
    report_.limits.copy_rate = measure::summarize(std::move(copies));
    for (std::size_t p = 0; p < reads_.size(); ++p) {
      report_.limits.read_warm.push_back(measure::summarize(std::move(warm_reads[p])));
      report_.limits.read_cold.push_back(measure::summarize(std::move(cold_reads[p])));
    }
    return {};
  }

  Status choose_runs(Lane& lane) {
    Result<double> seconds = lane.contender->time(1);
    if (!seconds.ok()) return seconds.status();
    report_.entries[lane.entry].warm.runs_per_sample = static_cast<int>(
        std::clamp(std::ceil(sample_seconds / std::max(seconds.value(), 1e-9)), 1.0, double{most_runs}));
    lane.run_seconds = seconds.value();
    return {};
  }

  Status sample(Lane& lane, CacheState cache, double read) {
    Entry& entry = report_.entries[lane.entry];
    const int threads = entry.identity.threads;
    Timing& timing = entry.timing(cache == CacheState::warm ? Way::warm : Way::cold);
    double fma = 0;
    Result<double> seconds = 0.0;
    for (int take = 0;; ++take) {
      fma = quick_fma_rate(threads);
      if (cache == CacheState::cold)
        lane.contender->flush();
      else if (lane.run_seconds <= long_run_seconds)
        if (Result<double> untimed = lane.contender->time(1); !untimed.ok()) return untimed.status();
      seconds = lane.contender->time(timing.runs_per_sample);
      if (!seconds.ok()) return seconds.status();
      fma = std::max(fma, quick_fma_rate(threads));
      if (threads == 1 || Scaling::holds(fma, one_thread_peak(), threads)) break;
      if (take == most_retakes) {
        ++entry.shared_core_samples;
        break;
      }
    }
    const Workload& workload = *workloads_[entry.problem];
    const double run_seconds = seconds.value() / timing.runs_per_sample;
    timing.seconds.push_back(run_seconds);
    timing.compute_seconds.push_back(workload.flops() / fma);
    timing.read_seconds.push_back(workload.bytes() / read);
    return {};
  }

  double one_thread_peak() const { return report_.limits.scaling.front().one_thread; }

  const SessionOptions& options_;
  measure::MemoryLedger ledger_;  // outlives what lies in it
  std::vector<std::unique_ptr<Workload>> workloads_;
  std::vector<Lane> lanes_;
  std::vector<ReadLimit> reads_;
  int most_threads_ = 1;
  Report report_;
};

}  // namespace

Result<Report> run_session(const std::vector<Problem>& problems, const SessionOptions& options) {
  return Session(problems, options).run();
}

}  // namespace runmax::bench
