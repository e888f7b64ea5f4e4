// `runmax bench PROBLEM...`: verifies, then times, with what the machine can do measured in the same run.
#include <fmt/core.h>

#include <algorithm>

#include "bench/gpu/session.hpp"
#include "bench/peers.hpp"
#include "bench/session.hpp"
#include "bench/simd.hpp"
#include "cli/commands.hpp"
#include "cli/device_choice.hpp"
#include "cli/output.hpp"
#include "cli/stage_progress.hpp"
#include "files/output_files.hpp"
#include "page/page.hpp"

namespace runmax::cli {
namespace {

// The pieces between commas; one empty piece for an empty text.
std::vector<std::string> pieces_of(const std::string& text) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    pieces.push_back(text.substr(begin, comma - begin));
    if (comma == text.size()) return pieces;
    begin = comma + 1;
  }
}

}  // namespace

ExitCode bench_command(const BenchArguments& arguments) {
  std::vector<Problem> problems;
  for (const std::string& text : arguments.problems) {
    Result<Problem> problem = parse_problem(text);
    if (!problem.ok()) return complain(problem.status());
    if (Status status = validate(problem.value()); !status.ok()) return complain(status);
    problems.push_back(std::move(problem).value());
  }
  const bool warm = arguments.cache != "cold", cold = arguments.cache != "warm";
  if (warm && cold && arguments.cache != "both")
    return complain(ExitCode::bad_input, "--cache: is warm, cold or both, got '" + arguments.cache + "'");
  if (arguments.repeat < 0)
    return complain(ExitCode::bad_input,
                    fmt::format("--repeat: must be at least 0 (0 is automatic), got {}", arguments.repeat));
  if (!(arguments.time_limit > 0))
    return complain(ExitCode::bad_input,
                    fmt::format("--time-limit: must be above 0 seconds, got {}", arguments.time_limit));
  if (!arguments.simd.empty())
    if (Status status = bench::force_simd(arguments.simd); !status.ok()) return complain(status);
  if (!arguments.html.empty())
    if (Status status = files::check_destination(arguments.html); !status.ok()) return complain(status);
  Result<DeviceChoice> device = choose_device(arguments.device);
  if (!device.ok()) return complain(device.status());
  const bool gpu = device.value().facts.device.kind == DeviceKind::cuda;
  if (arguments.graph_nodes < 0)
    return complain(
        ExitCode::bad_input,
        fmt::format("--graph-nodes: must be at least 0 (0 is automatic), got {}", arguments.graph_nodes));
  if (gpu)
    for (const auto& [given, name] :
         {std::pair{arguments.backward, "--backward"}, std::pair{!arguments.simd.empty(), "--simd"},
          std::pair{arguments.threads != std::vector<std::int64_t>{0}, "--threads"}})
      if (given)
        return complain(ExitCode::bad_input, std::string(name) + ": is for the CPU, not for a GPU so far");

  StageProgress progress;
  bench::SessionOptions options;
  options.facts = device.value().facts;
  options.kernels = pieces_of(arguments.kernel);
  options.caches.clear();
  if (warm) options.caches.push_back(measure::CacheState::warm);
  if (cold) options.caches.push_back(measure::CacheState::cold);
  options.pass = arguments.backward ? bench::Pass::backward : bench::Pass::forward;
  options.rounds = arguments.repeat;
  options.time_limit_s = arguments.time_limit;
  options.progress = [&](const std::string& stage) { progress(stage); };
  options.done = [&](double share) { progress.done(share); };
  for (const std::int64_t threads : arguments.threads) {
    if (threads < 0 || threads > options.facts.threads)
      return complain(ExitCode::bad_input,
                      fmt::format("--threads: must be in [0, {}] on this machine (0 is all), got {}",
                                  options.facts.threads, threads));
    options.threads.push_back(threads == 0 ? options.facts.threads : static_cast<int>(threads));
  }
  std::shared_ptr<bench::PeerProgram> peers;
  if (arguments.with_peers || !arguments.peers.empty()) {
    progress("starting the peers");
    const std::string command = !arguments.peers.empty() ? arguments.peers
                                : gpu                    ? "exec python3 bench/peers_cuda.py"
                                                         : "exec bench/peers-cpu";
    Result<std::shared_ptr<bench::PeerProgram>> started = bench::start_peers(command, arguments.simd);
    if (!started.ok()) return progress.clear(), complain(started.status());
    peers = started.value();
  }
  Result<bench::Report> report = Status();
  if (gpu) {
    bench::GpuSessionOptions gpu_options;
    gpu_options.facts = options.facts;
    gpu_options.kernels = options.kernels;
    gpu_options.ways.clear();
    if (warm) gpu_options.ways = {bench::Way::warm, bench::Way::graph};
    if (cold) gpu_options.ways.push_back(bench::Way::cold);
    gpu_options.rounds = options.rounds;
    gpu_options.time_limit_s = options.time_limit_s;
    gpu_options.graph_nodes = arguments.graph_nodes;
    gpu_options.progress = options.progress;
    gpu_options.done = options.done;
    if (peers)
      gpu_options.others = [&](const bench::Workload& workload) {
        return bench::gpu_peers_for(peers, workload);
      };
    report = bench::run_gpu_session(problems, gpu_options);
  } else {
    if (peers)
      options.others = [&](const bench::Workload& workload) {
        return bench::peers_for(peers, workload, options.threads);
      };
    report = bench::run_session(problems, options);
  }
  progress.clear();
  if (!report.ok()) return complain(report.status());
  print_result(arguments.json ? bench::json(report.value()) : bench::text(report.value()));
  if (!arguments.html.empty()) {
    const std::string title = "runmax bench: " + report.value().device.name;
    if (Status status = page::write_report(arguments.html, title, bench::json(report.value())); !status.ok())
      return complain_unwritten(status);
    print_aside("runmax: wrote " + arguments.html + "\n");
  }
  return report.value().passed() ? ExitCode::done : ExitCode::rejected;
}

}  // namespace runmax::cli
