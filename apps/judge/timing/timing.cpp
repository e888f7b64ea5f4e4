#include "judge/timing/timing.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

#include "judge/cases/buffers.hpp"
#include "judge/timing/fresh.hpp"
#include "lesson/costs.hpp"
#include "measure/cpu_cache.hpp"
#include "measure/cpu_probes.hpp"

namespace runmax::judge {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A window shorter than this measures the clock and the way to the worker as much as the work.
constexpr double window_seconds = 4e-3;
// A call longer than this needs no second window to cancel that way.
constexpr double long_call_seconds = 20e-3;
constexpr std::size_t most_short_window = 16;

// Times are of `count` calls each.
struct Window {
  std::size_t first = 0, count = 0;
};

// One length: the same sets of arrays serve candidate and naive path.
class Length {
 public:
  Length(std::int64_t n, const Manifest& manifest, const TimingOptions& options)
      : manifest_(manifest),
        options_(options),
        random_(options.seed ^ 0x74696d65ull, static_cast<std::uint64_t>(n)) {
    problem_.query_len = problem_.kv_len = n;
    problem_.head_dim = problem_.value_dim = 64;
    row_.n = n;
  }

  // Seconds that are left are `budget`; false if the candidate failed, and result says how.
  Result<TimingRow> run(double budget, double& fma_rate, TimingResult& result) {
    const Clock::time_point begin = Clock::now();
    Result<Plan> planned = naive_plan(problem_, options_.threads);
    if (!planned.ok()) return planned.status();
    plan_ = std::move(planned.value());
    workspace_.resize(plan_.workspace_bytes / sizeof(std::max_align_t) + 1);
    FreshData fresh(problem_, options_.seed, options_.full_rows, options_.threads);
    fresh_ = &fresh;

    // One call of each says how many fit in a window.
    if (Status status = make(1); !status.ok()) return status;
    double candidate_s = 0, naive_s = 0;
    for (int warm = 0; warm < 2 && result.finding.empty(); ++warm) {
      refresh(1);
      candidate_s = candidate_window({0, 1}, result);
      naive_s = naive_window({0, 1});
      if (result.finding.empty()) check({0, 1}, result);
    }
    if (!result.finding.empty()) return row_;
    const double faster = std::max(std::min(candidate_s, naive_s), 1e-6);
    std::size_t small = 1, large = 0;
    if (faster < long_call_seconds) {
      small = std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(window_seconds / faster)), 1,
                                      most_short_window);
      large = 4 * small;
    }
    if (Status status = make(small + large); !status.ok()) return status;
    const double round_s = static_cast<double>(small + large) * (candidate_s + naive_s);
    const double left = budget - seconds_since(begin);
    const int rounds = std::clamp(static_cast<int>(left / std::max(round_s, 1e-4)), 1, options_.rounds);

    std::vector<double> candidate, naive;
    for (int round = 0; round < rounds && result.finding.empty(); ++round) {
      refresh(small + large);
      const Window one{0, small}, four{small, large};
      const auto measure_candidate = [&] {
        const double short_s = candidate_window(one, result),
                     long_s = large ? candidate_window(four, result) : 0;
        candidate.push_back(per_call(short_s, long_s, small, large) * 1e6);
      };
      const auto measure_naive = [&] {
        const double short_s = naive_window(one), long_s = large ? naive_window(four) : 0;
        naive.push_back(per_call(short_s, long_s, small, large) * 1e6);
      };
      // Whoever comes first in one round comes second in the next.
      if (round % 2 == 0)
        measure_candidate(), measure_naive();
      else
        measure_naive(), measure_candidate();
      if (result.finding.empty()) check({0, small + large}, result);
    }
    row_.candidate_us = measure::summarize(candidate);
    row_.naive_us = measure::summarize(naive);
    row_.naive_over_candidate = row_.naive_us.median / row_.candidate_us.median;
    row_.rows_checked = fresh.checked_rows();
    if (result.finding.empty()) compare_with_limit(fma_rate, result);
    return row_;
  }

 private:
  Status make(std::size_t sets) {
    std::vector<SetOfArrays> arrays;
    for (std::size_t i = 0; i < sets; ++i)
      arrays.push_back({problem_, i % 3 == 0   ? Placement::odd
                                  : i % 3 == 1 ? Placement::front
                                               : Placement::back});
    worker_ = Worker();
    Result<Buffers> buffers = Buffers::make(arrays, manifest_);
    if (!buffers.ok()) return buffers.status();
    buffers_ = std::move(buffers.value());
    WorkerOptions with;
    with.module = options_.module;
    with.symbol = options_.symbol;
    with.cores = options_.threads;
    with.user = options_.user;
    Result<Worker> worker = Worker::start(with, buffers_.inputs(), buffers_.outputs());
    if (!worker.ok()) return worker.status();
    worker_ = std::move(worker.value());
    naive_out_.resize(static_cast<std::size_t>(problem_.query_len * problem_.value_dim));
    variants_.resize(sets);
    return {};
  }

  // New data for every set, new poison in every output.
  void refresh(std::size_t sets) {
    last_round_ = variants_;
    for (std::size_t i = 0; i < sets; ++i) {
      variants_[i] = fresh_->variant(random_);
      fresh_->write(variants_[i], buffers_.q(i), buffers_.k(i), buffers_.v(i));
      buffers_.poison(i, i % 2 ? Poison::number : Poison::nan);
    }
  }

  // Both begin with nothing of their arguments in any cache.
  void flush(const Window& window) const {
    for (std::size_t i = window.first; i < window.first + window.count; ++i) {
      for (std::size_t a = 3 * i; a < 3 * i + 3; ++a)
        measure::flush_lines(buffers_.inputs().data(a), static_cast<std::size_t>(buffers_.inputs().bytes(a)));
      measure::flush_lines(buffers_.out_memory(i), naive_out_.size() * sizeof(float));
    }
  }

  double candidate_window(const Window& window, TimingResult& result) {
    if (!result.finding.empty()) return 0;
    std::vector<Call> calls;
    for (std::size_t i = window.first; i < window.first + window.count; ++i)
      calls.push_back(buffers_.call(i));
    flush(window);
    const Outcome outcome = worker_.call(calls, 60 + options_.seconds);
    if (outcome.ending == Ending::returned) return outcome.seconds;
    result.finding = outcome.ending == Ending::hung      ? "hang"
                     : outcome.ending == Ending::refused ? "refused-inside-claim"
                                                         : "crash";
    result.message = fmt::format("while it was timed at n = {}: {}", row_.n,
                                 outcome.ending == Ending::hung ? "it did not return"
                                 : outcome.ending == Ending::refused
                                     ? fmt::format("it returned {}", outcome.returned)
                                     : fmt::format("it ended by signal {}", outcome.signal));
    return 0;
  }

  double naive_window(const Window& window) {
    flush(window);
    const Clock::time_point begin = Clock::now();
    for (std::size_t i = window.first; i < window.first + window.count; ++i)
      if (!run_naive(plan_, buffers_.q(i), buffers_.k(i), buffers_.v(i), naive_out_.data(), workspace_.data())
               .ok())
        return 0;
    return seconds_since(begin);
  }

  // The slope between a short and a long window cancels what a window costs; a slope that noise has driven
  // far below the long window's mean is not believed.
  static double per_call(double short_s, double long_s, std::size_t small, std::size_t large) {
    if (large == 0) return short_s / static_cast<double>(small);
    const double mean = long_s / static_cast<double>(large);
    const double slope = (long_s - short_s) / static_cast<double>(large - small);
    return slope > mean / 2 ? slope : mean;
  }

  void check(const Window& window, TimingResult& result) {
    for (std::size_t i = window.first; i < window.first + window.count && result.finding.empty(); ++i) {
      ++row_.outputs_checked;
      const std::string wrong = fresh_->wrong(variants_[i], buffers_.out_memory(i));
      const std::string outside = buffers_.written_outside(i);
      if (wrong.empty() && outside.empty()) continue;
      const bool replayed = !wrong.empty() && is_earlier_answer(i);
      result.finding = wrong.empty() ? "out-of-bounds" : replayed ? "replayed-output" : "wrong-when-timed";
      result.message = fmt::format("timed call {} at n = {}: {}", row_.outputs_checked, row_.n,
                                   wrong.empty() ? outside : wrong);
    }
  }

  // Whether the output of a set is the answer to data of another call, of this round or of the one before.
  bool is_earlier_answer(std::size_t set) const {
    const auto answers = [&](const Variant& variant) {
      return !variant.query.empty() && fresh_->wrong(variant, buffers_.out_memory(set)).empty();
    };
    for (std::size_t i = 0; i < variants_.size(); ++i)
      if (i != set && answers(variants_[i])) return true;
    return std::any_of(last_round_.begin(), last_round_.end(), answers);
  }

  void compare_with_limit(double& fma_rate, TimingResult& result) {
    const double flops = lesson::attention_costs(row_.n, 64).flops;
    // Another program may have had its share of the machine when the rate was measured; a rate is a maximum.
    for (int attempt = 0; attempt < 3; ++attempt) {
      row_.floor_us = flops / fma_rate * 1e6;
      row_.share_of_limit = row_.floor_us / row_.candidate_us.median;
      if (row_.candidate_us.median >= 0.9 * row_.floor_us) return;
      fma_rate = std::max(fma_rate, measure::cpu_fma_rate(options_.threads));
    }
    result.finding = "impossible-time";
    result.message = fmt::format(
        "at n = {} a call took {:.1f} us, less than the {:.1f} us that its arithmetic needs at this "
        "machine's peak",
        row_.n, row_.candidate_us.median, row_.floor_us);
  }

  const Manifest& manifest_;
  const TimingOptions& options_;
  inputs::Random random_;
  Problem problem_;
  TimingRow row_;
  Plan plan_;
  std::vector<std::max_align_t> workspace_;
  std::vector<float> naive_out_;
  std::vector<Variant> variants_, last_round_;
  FreshData* fresh_ = nullptr;
  Buffers buffers_;
  Worker worker_;
};

}  // namespace

std::optional<std::int64_t> TimingResult::crossover() const {
  std::optional<std::int64_t> from;
  for (const TimingRow& row : rows) {
    if (row.naive_over_candidate <= 1)
      from.reset();
    else if (!from)
      from = row.n;
  }
  return from;
}

Result<TimingResult> time_candidate(const Manifest& manifest, const TimingOptions& options) {
  TimingResult result;
  result.method =
      "new data in every call, every output checked; all lines of the arguments flushed from the caches "
      "before a window; "
      "candidate and naive path in turns; time of one call is the slope of the judge's own clock over "
      "windows of k and 4k "
      "calls, or one call where it is longer than 20 ms; median of the rounds";
  if (!manifest.serves_dim(64)) {
    result.why_stopped = "only head_dim 64 is timed, and the manifest does not claim it";
    return result;
  }
  const Clock::time_point begin = Clock::now();
  double fma_rate = measure::cpu_fma_rate(options.threads);
  double last_run_seconds = 0;
  for (std::int64_t n = 64; n <= options.longest; n *= 2) {
    if (!manifest.serves_length(n)) continue;
    const double left = options.seconds - seconds_since(begin);
    // A run of the next length takes about four times as long, and two warm ones and one round are the least.
    const double least = last_run_seconds * 4 * 3;
    if (!result.rows.empty() && least > left) {
      result.why_stopped =
          fmt::format("n = {} would take longer than the {:.0f} s that were left", n, std::max(left, 0.0));
      break;
    }
    const double needed = 8.0 * static_cast<double>(n) * static_cast<double>(n);
    if (!lesson::fits_in_memory(needed, static_cast<double>(device_facts({}).value().free_bytes))) {
      result.why_stopped = fmt::format("the naive path's matrix at n = {} does not fit in memory", n);
      break;
    }
    options.progress(n, std::min(1.0, seconds_since(begin) / options.seconds));
    const Clock::time_point started = Clock::now();
    Length length(n, manifest, options);
    Result<TimingRow> row = length.run(left, fma_rate, result);
    if (!row.ok()) return row.status();
    if (!result.finding.empty()) break;
    result.rows.push_back(row.value());
    last_run_seconds = seconds_since(started) / (row.value().candidate_us.samples + 2);
  }
  result.fma_rate = fma_rate;
  if (result.why_stopped.empty() && result.finding.empty())
    result.why_stopped = result.rows.empty()
                             ? "the manifest claims no power of two from 64 on"
                             : fmt::format("n = {} is the longest that is tried", result.rows.back().n);
  return result;
}

}  // namespace runmax::judge
