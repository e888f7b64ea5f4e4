// `runmax lab`: what the score matrix costs, what online saves, and what that is worth on this machine.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cli/commands.hpp"
#include "cli/device_choice.hpp"
#include "cli/output.hpp"
#include "cli/stage_progress.hpp"
#include "files/output_files.hpp"
#include "lab/bench.hpp"
#include "lab/gpu/resources.hpp"
#include "lab/pitfalls.hpp"
#include "lab/report.hpp"
#include "lab/study.hpp"
#include "page/page.hpp"

namespace runmax::lab {
namespace {

using cli::complain;
using cli::ExitCode;
using cli::LabArguments;

// N = 2^22 is 32 times the lesson's longest; beyond it one operand of the reference would not fit anywhere.
constexpr std::int64_t max_len = std::int64_t{1} << 22;

std::vector<KernelSources> sources_of(const std::vector<PathResult>& results) {
  std::vector<std::string> kernels;
  for (const PathResult& result : results)
    if (result.ran()) kernels.push_back(result.kernel);
  return measure::sources_of(kernels);
}

bool wants_color(const LabArguments& arguments) {
  const char* no_color = std::getenv("NO_COLOR");
  return !arguments.no_color && (!no_color || *no_color == '\0') && isatty(STDOUT_FILENO) != 0;
}

void show(const std::string& section) {
  cli::print_result(section);
  (void)std::fflush(stdout);
}

ExitCode run_lab(const LabArguments& arguments) {
  std::vector<std::int64_t> lengths = arguments.lengths;
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  if (lengths.empty()) return complain(ExitCode::bad_input, "--n: names no length");
  for (const std::int64_t n : {lengths.front(), lengths.back()})
    if (n < 1 || n > max_len)
      return complain(ExitCode::bad_input, fmt::format("--n: must be in [1, {}], got {}", max_len, n));
  if (arguments.threads < 0)
    return complain(ExitCode::bad_input,
                    fmt::format("--threads: must be at least 0 (0 is all), got {}", arguments.threads));
  if (!(arguments.time_limit > 0))
    return complain(ExitCode::bad_input,
                    fmt::format("--time-limit: must be above 0 seconds, got {}", arguments.time_limit));
  if (!arguments.html.empty())
    if (Status status = files::check_destination(arguments.html); !status.ok()) return complain(status);
  Result<cli::DeviceChoice> choice = cli::choose_device(arguments.device);
  if (!choice.ok()) return complain(choice.status());

  cli::StageProgress progress;
  const TextStyle style{wants_color(arguments)};
  Report report;
  report.device = choice.value().facts;
  report.why = choice.value().why;
  report.seed = arguments.seed;
  report.date = now_utc();
  const bool gpu = report.device.device.kind == DeviceKind::cuda;
  Result<DeviceFacts> host = device_facts({DeviceKind::cpu, 0});
  if (!host.ok()) return complain(host.status());
  report.threads = host.value().threads;
  if (arguments.threads > 0) report.threads = std::min(report.threads, arguments.threads);
  for (const std::int64_t n : lengths) report.costs.push_back(lesson::attention_costs(n, head_dim));

  std::unique_ptr<Bench> bench;
  if (gpu) {
    Result<std::unique_ptr<Bench>> made = make_cuda_bench(report.device);
    if (!made.ok()) return complain(made.status());
    bench = std::move(made.value());
    Result<std::vector<lesson::ResourceFigures>> resources = kernel_resources(report.device);
    if (!resources.ok()) return complain(resources.status());
    report.resources = std::move(resources.value());
  } else {
    bench = make_cpu_bench(report.device, report.threads);
    report.why_no_resources = "a CPU has no multiprocessors, blocks or shared memory";
  }
  report.driver = bench->driver();
  report.method_warm = bench->method(CacheState::warm);
  report.method_cold = bench->method(CacheState::cold);

  progress("measuring copy bandwidth, FMA rate and an empty launch");
  Result<MachineLimits> limits = bench->limits();
  if (!limits.ok()) return complain(limits.status());
  report.limits = limits.value();
  progress.clear();
  if (!arguments.json)
    show(machine_text(report, style) + costs_text(report, style) + gates_text(report, style) +
         resources_text(report, style));

  StudyOptions options;
  options.facts = report.device;
  options.seed = report.seed;
  options.threads = report.threads;
  options.time_limit_s = arguments.time_limit;
  options.fma_rate = &report.limits.fma_rate;
  options.progress = [&](const std::string& stage) { progress(stage); };
  // Every path takes time in proportion to N^2.
  double all = 0, done = 0;
  for (const std::int64_t n : lengths) all += static_cast<double>(n) * static_cast<double>(n);
  for (const std::int64_t n : lengths) {
    progress.done(done / all);
    done += static_cast<double>(n) * static_cast<double>(n);
    Result<std::vector<PathResult>> results = study_length(n, options, *bench);
    progress.clear();
    if (!results.ok()) return complain(results.status());
    for (PathResult& result : results.value()) report.results.push_back(std::move(result));
  }
  report.sources = sources_of(report.results);
  if (!arguments.json) show(results_text(report, style));
  if (arguments.pitfalls) {
    Result<std::vector<Pitfall>> pitfalls =
        study_pitfalls(options, report.limits.empty_launch_ms.median, *bench);
    progress.clear();
    if (!pitfalls.ok()) return complain(pitfalls.status());
    report.pitfalls = std::move(pitfalls.value());
  }
  show(arguments.json ? report_json(report) : conclusions_text(report, style));
  if (!arguments.html.empty()) {
    const std::string title = "runmax lab: " + report.device.name;
    if (Status status = page::write_report(arguments.html, title, report_json(report)); !status.ok())
      return cli::complain_unwritten(status);
    cli::print_aside("runmax: wrote " + arguments.html + "\n");
  }
  return passed(report) ? ExitCode::done : ExitCode::rejected;
}

}  // namespace
}  // namespace runmax::lab

namespace runmax::cli {

ExitCode lab_command(const LabArguments& arguments) { return lab::run_lab(arguments); }

}  // namespace runmax::cli
