#include "bench/gpu/session.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench/gpu/engine.hpp"
#include "bench/gpu/limits.hpp"
#include "bench/rounds.hpp"
#include "bench/verdicts.hpp"
#include "check/check.hpp"
#include "gate/gate.hpp"

namespace runmax::bench {
namespace {

using Clock = std::chrono::steady_clock;
using measure::CacheState;

// A warm sample lasts at least this long: a kernel that draws much power runs a tenth slower after the first
// milliseconds than in them, and only the lasting rate is worth comparing.
constexpr double sample_seconds = 50e-3;
constexpr int most_runs = 1000;
// One cold run lies between two events, which add a microsecond or two; of short runs some are averaged.
constexpr double cold_sample_seconds = 2e-4;
constexpr int most_cold_runs = 5;
// Nodes of a graph unless asked otherwise: as many as take so long, within these bounds.
constexpr double graph_seconds = 0.1;
constexpr int fewest_graph_nodes = 3, most_graph_nodes = 50;
// A graph that takes longer is not replayed; one that takes more than a moment only in the first rounds.
constexpr double longest_graph_seconds = 2.5, long_graph_seconds = 0.3;

// One implementation at work on the present problem.
struct Lane {
  std::size_t entry = 0;  // in Report::entries
  std::unique_ptr<GpuContender> contender;
  bool graph = true;  // can be replayed as one
};

class GpuSession {
 public:
  GpuSession(const std::vector<Problem>& problems, const GpuSessionOptions& options) : options_(options) {
    report_.device = options.facts;
    report_.date = measure::now_utc();
    report_.problems = problems;
    report_.ways = options.ways;
  }

  Result<Report> run() {
    Result<std::unique_ptr<measure::GpuClock>> clock = measure::GpuClock::make(options_.facts);
    if (!clock.ok()) return clock.status();
    clock_ = std::move(clock.value());
    Result<std::unique_ptr<GpuLimits>> limits = GpuLimits::make(options_.facts, *clock_);
    if (!limits.ok()) return limits.status();
    limits_ = std::move(limits.value());
    report_.limits.copy_bytes = limits_->copy_bytes();
    options_.done(0);
    for (std::size_t p = 0; p < report_.problems.size(); ++p)
      if (Status status = run_problem(p); !status.ok()) return status;
    report_.limits.fma_rate = measure::summarize(fma_rates_).median;
    report_.limits.tensor_rate = measure::summarize(tensor_rates_).median;
    report_.limits.copy_rate = measure::summarize(copy_rates_);
    return std::move(report_);
  }

 private:
  Status run_problem(std::size_t at) {
    const Problem& problem = report_.problems[at];
    const std::string name = to_text(problem);
    // Before anything is drawn for a problem that nothing serves.
    for (const std::string& kernel : options_.kernels)
      if (const Result<Plan> planned = plan(problem, options_.facts, {.kernel = kernel}); !planned.ok())
        return planned.status();
    if (problem.batch == 0 || problem.query_heads == 0 || problem.query_len == 0)
      return {StatusCode::invalid_argument,
              "bench: " + name + " has no query row, so there is nothing to time"};
    options_.progress(name + ": drawing inputs");
    measure::MemoryLedger ledger;  // outlives what lies in it
    Result<Workload> made = make_workload(problem, Pass::forward, options_.facts.device, ledger);
    if (!made.ok()) return made.status();
    const Workload& workload = made.value();
    std::vector<Lane> lanes;
    for (const std::string& kernel : options_.kernels) {
      Result<std::unique_ptr<GpuContender>> engine =
          make_gpu_engine(workload, options_.facts, {.kernel = kernel}, *clock_, ledger);
      if (!engine.ok()) return engine.status();
      add_entry(at, std::move(engine).value(), lanes);
    }
    if (options_.others) {
      options_.progress(name + ": handing the inputs to the peers");
      Result<GpuOthers> others = options_.others(workload);
      if (!others.ok()) return others.status();
      for (std::unique_ptr<GpuContender>& other : others.value().contenders)
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
    std::vector<Entry*> entries;
    for (const Lane& lane : lanes) {
      entries.push_back(&report_.entries[lane.entry]);
      options_.progress(name + ": " + shown(*entries.back()) + " runs");
      Result<Output> output = lane.contender->output();
      if (!output.ok()) return output.status();
      outputs.push_back(std::move(output).value());
    }
    options_.progress(name + ": comparing with the double-precision reference");
    judge_outputs(workload, options_.facts, rows_of(problem), std::move(outputs), entries);
    std::erase_if(lanes,
                  [&](const Lane& lane) { return report_.entries[lane.entry].outcome != Outcome::ok; });
    if (Status status = time_all(at, workload, lanes); !status.ok()) return status;
    for (Lane& lane : lanes) {
      Entry& entry = report_.entries[lane.entry];
      options_.progress(name + ": " + shown(entry) + ": comparing its last output with its first");
      Result<bool> unchanged = lane.contender->unchanged();
      if (!unchanged.ok()) return unchanged.status();
      // What was timed must be what was gated.
      if (!unchanged.value()) {
        entry.outcome = Outcome::rejected;
        entry.reason = "the output of the last timed run has other bits than the one that was gated";
      }
      judge_shares(entry);
    }
    return {};
  }

  static std::string shown(const Entry& entry) {
    return entry.identity.implementation == "runmax" ? entry.identity.kernel : entry.identity.implementation;
  }

  // As many as a check compares, and enough for the second bar.
  static std::int64_t rows_of(const Problem& p) {
    const std::int64_t heads = p.batch * p.query_heads;
    return std::max(check::rows_to_compare(p, 0),
                    std::min(p.query_len, (gate::second_bar_fewest_rows + heads - 1) / heads));
  }

  void add_entry(std::size_t at, std::unique_ptr<GpuContender> contender, std::vector<Lane>& lanes) {
    Entry entry;
    entry.problem = at;
    entry.identity = contender->identity();
    if (entry.identity.implementation == "runmax")
      entry.repeat = check::repeat_command(report_.problems[at], options_.facts, {}, entry.identity.kernel);
    lanes.push_back({report_.entries.size(), std::move(contender)});
    report_.entries.push_back(std::move(entry));
  }

  Status time_all(std::size_t at, const Workload& workload, std::vector<Lane>& lanes) {
    for (Lane& lane : lanes)
      if (Status status = choose_runs(lane); !status.ok()) return status;
    std::vector<double> reads[2];
    const Clock::time_point begin = Clock::now();
    const double problems = static_cast<double>(report_.problems.size());
    const Rounds rounds(options_.rounds, options_.time_limit_s / problems);
    const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    int round = 0;
    for (; !lanes.empty() && !rounds.enough(round, seconds()); ++round) {
      options_.done((static_cast<double>(at) + rounds.share(round, seconds())) / problems);
      options_.progress(
          fmt::format("{}: timing, round {} of {}", to_text(workload.problem), round + 1, rounds.wanted()));
      Result<double> copied = limits_->copy();
      if (!copied.ok()) return copied.status();
      copy_rates_.push_back(copied.value());
      for (std::size_t l = 0; l < lanes.size(); ++l) {
        Lane& lane = lanes[round % 2 == 0 ? l : lanes.size() - 1 - l];
        for (const Way way : options_.ways)
          if (Status status = sample(workload, lane, way, round, reads[way == Way::cold]); !status.ok())
            return status;
      }
    }
    report_.rounds = std::max(report_.rounds, round);
    report_.seconds += seconds();
    report_.limits.read_warm.push_back(measure::summarize(std::move(reads[0])));
    report_.limits.read_cold.push_back(measure::summarize(std::move(reads[1])));
    return {};
  }

  Status choose_runs(Lane& lane) {
    if (Result<double> untimed = lane.contender->time(Way::warm, 1); !untimed.ok()) return untimed.status();
    Result<double> measured = lane.contender->time(Way::warm, 3);
    if (!measured.ok()) return measured.status();
    const double seconds = std::max(measured.value(), 1e-7);
    const auto runs_in = [&](double time, int least, int most) {
      return static_cast<int>(std::clamp(std::ceil(time / seconds), double(least), double(most)));
    };
    Entry& entry = report_.entries[lane.entry];
    entry.warm.runs_per_sample = runs_in(sample_seconds, 1, most_runs);
    entry.cold.runs_per_sample = runs_in(cold_sample_seconds, 1, most_cold_runs);
    entry.graph.runs_per_sample = options_.graph_nodes > 0
                                      ? options_.graph_nodes
                                      : runs_in(graph_seconds, fewest_graph_nodes, most_graph_nodes);
    const double replay = entry.graph.runs_per_sample * seconds;
    lane.graph = replay <= longest_graph_seconds;
    return {};
  }

  Status sample(const Workload& workload, Lane& lane, Way way, int round, std::vector<double>& reads) {
    Entry& entry = report_.entries[lane.entry];
    Timing& timing = entry.timing(way);
    if (way == Way::graph) {
      if (!lane.graph) return {};
      const double last = timing.seconds.empty() ? 0 : timing.seconds.back() * timing.runs_per_sample;
      if (round >= Rounds::fewest && last > long_graph_seconds) return {};
    }
    Result<double> fma = limits_->fma();
    if (!fma.ok()) return fma.status();
    Result<double> tensor = limits_->tensor();
    if (!tensor.ok()) return tensor.status();
    Result<double> read = limits_->read(workload.bytes(), cache_of(way));
    if (!read.ok()) return read.status();
    Result<double> seconds = 0.0;
    if (way == Way::cold) {
      double sum = 0;
      for (int run = 0; run < timing.runs_per_sample && seconds.ok(); ++run) {
        seconds = lane.contender->time(Way::cold, 1);
        if (seconds.ok()) sum += seconds.value();
      }
      if (seconds.ok()) seconds = sum / timing.runs_per_sample;
    } else {
      seconds = lane.contender->time(way, timing.runs_per_sample);
    }
    if (!seconds.ok() && way == Way::graph && seconds.status().code() == StatusCode::unsupported) {
      lane.graph = false;
      return {};
    }
    if (!seconds.ok()) return seconds.status();
    fma_rates_.push_back(fma.value());
    tensor_rates_.push_back(tensor.value());
    reads.push_back(read.value());
    timing.seconds.push_back(seconds.value());
    timing.read_seconds.push_back(workload.bytes() / read.value());
    // Three products of fp16 planes make one of FP32.
    const bool sixteen = is_sixteen_bit(workload.problem.dtype);
    const double by_tensor = tensor.value() / (sixteen ? 1 : 3);
    timing.compute_seconds.push_back(workload.flops() / std::max(fma.value(), by_tensor));
    timing.compute = fma.value() > by_tensor ? Limit::fma : sixteen ? Limit::tensor : Limit::tensor_third;
    return {};
  }

  const GpuSessionOptions& options_;
  std::unique_ptr<measure::GpuClock> clock_;
  std::unique_ptr<GpuLimits> limits_;
  std::vector<double> fma_rates_, tensor_rates_, copy_rates_;
  Report report_;
};

}  // namespace

Result<Report> run_gpu_session(const std::vector<Problem>& problems, const GpuSessionOptions& options) {
  return GpuSession(problems, options).run();
}

}  // namespace runmax::bench
