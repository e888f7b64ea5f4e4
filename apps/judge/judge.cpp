#include "judge/judge.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <random>

#include "judge/worker/protocol.hpp"
#include "measure/provenance.hpp"

namespace runmax::judge {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Of the minute, or of the ten: what remains is for building, and for a slow machine.
double total_seconds(Effort effort) { return effort == Effort::quick ? 50 : 540; }
// Cases take about this share of a quick run.
constexpr double share_of_cases = 0.3;

std::vector<GuardLine> guard_lines(const Confinement& confinement, bool device) {
  std::vector<GuardLine> lines;
  for (std::size_t i = 0; i < guard_count; ++i) {
    const auto guard = static_cast<Guard>(i);
    const std::int32_t error = confinement[guard];
    lines.push_back({std::string(guard_name(guard)), std::string(guard_purpose(guard)), error == 0,
                     error == 0  ? ""
                     : error < 0 ? (device ? "a GPU's driver does not start with it" : "not asked for")
                                 : std::string("the system refuses: ") + std::strerror(error)});
  }
  if (device) {
    lines.push_back({"inputs", "compared after every call with what they were", true, ""});
    lines.push_back(
        {"guard bands", "of 32 KiB on both sides of every array in the device's memory", true, ""});
  } else {
    lines.push_back({"inputs", "mapped read-only from a sealed file", true, ""});
    lines.push_back({"guard pages", "beside every array", true, ""});
  }
  lines.push_back({"wall clock", "every call ends, or is ended", true, ""});
  lines.push_back({"resident memory", "watched 20 times a second", true, ""});
  lines.push_back({"printed output", "ended beyond 64 KiB", true, ""});
  return lines;
}

// Findings that a trap proves, worst first; those before `named_before` beat a named mistake.
constexpr std::array proven{"hang",
                            "output-flood",
                            "memory-limit",
                            "forged-result",
                            "not-loaded",
                            "out-of-bounds",
                            "input-written",
                            "late-output",
                            "replayed-output",
                            "depends-on-old-memory",
                            "output-unwritten"};
constexpr std::array weaker{"crash", "wrong-after-calls", "matrix-stored", "refused-inside-claim",
                            "served-outside-claim"};

const CaseResult* first_with(const std::vector<CaseResult>& cases, std::string_view finding) {
  for (const CaseResult& one : cases)
    if (!one.passed() && one.finding == finding) return &one;
  return nullptr;
}

const CaseResult* first_failing(const std::vector<CaseResult>& cases) {
  for (const CaseResult& one : cases)
    if (!one.passed()) return &one;
  return nullptr;
}

// What is compared with the known mistakes: small wrong answers of different cases, and right ones beside
// them.
diagnosis::Diagnosis diagnose_cases(const Report& report, const CaseResult*& shown) {
  constexpr std::size_t most_wrong = 4, most_right = 8, most_more = 4;
  std::vector<const CaseResult*> wrong, right;
  for (const CaseResult& one : report.cases) {
    if (!one.passed() && one.wrong && one.finding.empty()) wrong.push_back(&one);
    if (one.passed() && one.right) right.push_back(&one);
  }
  // Lengths of a few tiles say most; the longest are slow to compare, the shortest fit anything.
  const auto rank = [&](const CaseResult* one) {
    const Problem& p = (one->wrong ? one->wrong : one->right)->problem;
    const std::int64_t tile = report.manifest.key_tile, size = p.query_len * p.kv_len;
    return size < 4 * tile * tile ? 2 : size > 512 * 512 ? 1 : 0;
  };
  for (auto* list : {&wrong, &right})
    std::stable_sort(list->begin(), list->end(),
                     [&](const CaseResult* a, const CaseResult* b) { return rank(a) < rank(b); });
  // Where a mistake would have shown and did not, it was not made: hostile data shows most.
  const auto is_hostile = [](const CaseResult* one) { return one->bound == diagnosis::Bound::hostile; };
  std::stable_partition(right.begin(), right.end(), is_hostile);
  if (wrong.empty()) return {};
  shown = wrong.front();
  std::vector<diagnosis::Evidence> calls;
  const auto add = [&](const CaseResult* one) {
    calls.push_back((one->wrong ? one->wrong : one->right)->evidence(report.manifest, one->bound));
  };
  for (std::size_t i = 0; i < std::min(wrong.size(), most_wrong); ++i) add(wrong[i]);
  for (std::size_t i = 0; i < std::min(right.size(), most_right); ++i) add(right[i]);
  diagnosis::Diagnosis found = diagnosis::diagnose(calls);
  if (!found.named() || found.also_possible.empty()) return found;
  // Two mistakes may do the same to ordinary data. On extreme data they seldom do.
  wrong.erase(wrong.begin(), wrong.begin() + static_cast<std::ptrdiff_t>(std::min(wrong.size(), most_wrong)));
  std::stable_partition(wrong.begin(), wrong.end(), [](const CaseResult* one) {
    return one->name == "values-tiny" || one->name == "wide" || one->name.starts_with("causal");
  });
  for (std::size_t i = 0; i < std::min(wrong.size(), most_more); ++i) add(wrong[i]);
  diagnosis::Diagnosis more = diagnosis::diagnose(calls);
  return more.named() ? more : found;
}

std::string in_case(const CaseResult& one) {
  return fmt::format("{} (case {}: {})", one.message, one.name, one.reason);
}

// Verdict, reason and diagnosis from the cases.
void conclude(Report& report) {
  const CaseResult* failing = first_failing(report.cases);
  if (!failing) {
    report.verdict = Verdict::accepted;
    return;
  }
  const bool ended = std::any_of(report.cases.begin(), report.cases.end(), [](const CaseResult& one) {
    return one.outcome == CaseOutcome::crashed || one.outcome == CaseOutcome::hung;
  });
  report.verdict = ended ? Verdict::crashed : Verdict::rejected;
  const CaseResult* shown = nullptr;
  const diagnosis::Diagnosis found = diagnose_cases(report, shown);
  if (shown) {
    report.map = found.map;
    report.picture = found.map.text();
    report.map_case = shown->name;
    report.explanation = found.text();
  }
  for (const char* name : proven)
    if (const CaseResult* one = first_with(report.cases, name)) {
      report.diagnosis = name;
      report.reason = in_case(*one);
      return;
    }
  if (const diagnosis::Fit* fit = found.named()) {
    report.diagnosis = std::string(fit->mistake->name);
    report.reason = fmt::format("{}: {}", fit->mistake->sentence, fit->text());
    return;
  }
  for (const char* name : weaker)
    if (const CaseResult* one = first_with(report.cases, name)) {
      report.diagnosis = name;
      report.reason = in_case(*one);
      return;
    }
  report.reason = (found.pattern.empty() ? "" : found.pattern + "; ") + in_case(*(shown ? shown : failing));
}

// The last few cases ended the worker in the same way.
bool ends_alike(const std::vector<CaseResult>& cases) {
  constexpr std::size_t enough = 6;
  if (cases.size() < enough) return false;
  return std::all_of(cases.end() - enough, cases.end(), [&](const CaseResult& one) {
    return (one.outcome == CaseOutcome::crashed || one.outcome == CaseOutcome::hung) &&
           one.finding == cases.back().finding;
  });
}

Status no_such_case(const std::string& name, const std::vector<Case>& cases) {
  std::string names;
  for (const Case& one : cases) names += (names.empty() ? "" : ", ") + one.name;
  return {StatusCode::invalid_argument,
          fmt::format("--case: this candidate has no case '{}'; it has {}", name, names)};
}

}  // namespace

Result<Report> judge(const std::string& path, const JudgeOptions& options) {
  const Clock::time_point begin = Clock::now();
  Result<Candidate> candidate = read_candidate(path);
  if (!candidate.ok()) return candidate.status();
  Report report;
  report.file = path;
  report.sha256 = candidate.value().sha256;
  report.manifest = candidate.value().manifest;
  report.date = measure::now_utc();
  report.effort = options.effort == Effort::quick ? "quick" : "full";
  report.threads = options.threads;
  report.only_case = options.only_case;
  report.device = device_facts({}).value().name;
  const bool cuda = candidate.value().language == Language::cuda;
  const Result<DeviceFacts> gpu = device_facts({DeviceKind::cuda, options.gpu});
  std::vector<Case> cases = cases_for(report.manifest);
  if (!options.only_case.empty()) {
    const auto found =
        std::find_if(cases.begin(), cases.end(), [&](const Case& c) { return c.name == options.only_case; });
    if (found == cases.end()) return no_such_case(options.only_case, cases);
    const Case one = *found;
    cases = {one};
  }

  options.progress("building " + candidate.value().file_name, 0);
  Result<Build> built =
      build_candidate(candidate.value(), cuda && gpu.ok() ? gpu.value().compute_capability : 0);
  if (!built.ok()) return built.status();
  const Build build = std::move(built.value());
  report.build_command = build.command;
  report.build_output = build.output;
  report.build_seconds = build.seconds;
  if (build.module.empty()) {
    report.verdict = Verdict::build_failed;
    report.reason = build.complaint;
    if (build.complaint.starts_with("exports-system-symbol")) report.diagnosis = "exports-system-symbol";
    return report;
  }
  const bool kernel = cuda && report.manifest.tier == Tier::device;
  if (cuda && !(kernel && gpu.ok())) {
    report.verdict = Verdict::not_run;
    report.reason =
        gpu.ok() ? "it compiles; this version runs kernels of the device tier alone on a GPU"
                 : "it compiles; running it needs an NVIDIA GPU, and there is none that this build can use";
    return report;
  }
  if (cuda) report.device = gpu.value().name;
  // Only now: whoever wrote the candidate could not know it.
  report.seed_drawn = !options.seed.has_value();
  report.seed = options.seed ? *options.seed : std::random_device()() % 1000000000u;

  CaseOptions with;
  with.module = build.module;
  with.user = build.user;
  if (kernel) with.entry = Entry::device_kernel;
  with.device = options.gpu;
  with.seed = report.seed;
  with.threads = options.helpers;
  with.cores = options.threads;
  with.call_seconds = options.effort == Effort::quick ? 5 : 30;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    options.progress(fmt::format("case {} of {}: {}", i + 1, cases.size(), cases[i].name),
                     share_of_cases * static_cast<double>(i) / static_cast<double>(cases.size()));
    Confinement confinement;
    Resources resources;
    Result<CaseResult> result = run_case(cases[i], report.manifest, with, &confinement, &resources);
    if (!result.ok()) return result.status();
    if (report.isolation.empty()) report.isolation = guard_lines(confinement, kernel);
    if (resources.registers > 0) report.resources = resources;
    const bool hung = result.value().outcome == CaseOutcome::hung;
    report.cases.push_back(std::move(result.value()));
    // One long wait is enough to know that it may hang; and a candidate that has failed already is not worth
    // more than the time that an honest one takes.
    if (hung) with.call_seconds = std::min(with.call_seconds, 2.0);
    if (first_failing(report.cases) && seconds_since(begin) > 0.7 * total_seconds(options.effort)) break;
    if (seconds_since(begin) > 10 && ends_alike(report.cases)) break;
  }
  report.cases_left_out = cases.size() - report.cases.size();
  conclude(report);
  if (report.verdict != Verdict::accepted) {
    report.why_not_timed = "a wrong answer has no time";
    return report;
  }
  report.reason = fmt::format("every case passed: {}", report.cases.size());
  if (!options.only_case.empty()) {
    report.why_not_timed = "one case was asked for";
    return report;
  }

  if (kernel) {
    report.why_not_timed = "this version does not time kernels on a GPU";
    return report;
  }

  TimingOptions timing;
  timing.module = build.module;
  timing.user = build.user;
  timing.seed = report.seed;
  timing.threads = options.threads;
  timing.seconds = std::max(5.0, total_seconds(options.effort) - seconds_since(begin));
  if (options.longest > 0) timing.longest = options.longest;
  timing.full_rows = options.effort == Effort::quick ? 2048 : 8192;
  timing.rounds = options.effort == Effort::quick ? 5 : 15;
  timing.progress = [&](std::int64_t n, double share) {
    options.progress(fmt::format("timing n = {}", n), share_of_cases + (1 - share_of_cases) * share);
  };
  Result<TimingResult> timed = time_candidate(report.manifest, timing);
  if (!timed.ok()) return timed.status();
  report.timing = std::move(timed.value());
  report.timed = true;
  if (!report.timing.finding.empty()) {
    const bool ended = report.timing.finding == "hang" || report.timing.finding == "crash";
    report.verdict = ended ? Verdict::crashed : Verdict::rejected;
    report.diagnosis = report.timing.finding;
    report.reason = report.timing.message;
  }
  return report;
}

}  // namespace runmax::judge
