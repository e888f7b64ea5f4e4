// `runmax judge`: checks somebody's kernel, or writes a file to begin with, or gives a hint.
#include "judge/judge.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <thread>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/stage_progress.hpp"
#include "files/output_files.hpp"
#include "judge/candidate/starter.hpp"
#include "judge/exercise/hints.hpp"
#include "measure/paragraph.hpp"
#include "page/page.hpp"

namespace runmax::cli {
namespace {

Status write_file(const std::string& path, const std::string& text) {
  files::OutputFiles output;
  if (Status status = output.add(path, {std::as_bytes(std::span<const char>(text))}); !status.ok())
    return status;
  return output.commit();
}

ExitCode exit_code_of(const judge::Report& report) { return static_cast<ExitCode>(report.exit_status()); }

}  // namespace

ExitCode judge_command(const JudgeArguments& arguments) {
  if (arguments.quick && arguments.full)
    return complain(ExitCode::bad_input, "--quick, --full: must be one of them, got both");
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (arguments.threads < 0 || arguments.threads > cores)
    return complain(ExitCode::bad_input,
                    fmt::format("--threads: must be in [0, {}] on this machine (0 is all), got {}", cores,
                                arguments.threads));
  if (arguments.device != "auto" && arguments.device != "cpu" && !arguments.device.starts_with("cuda"))
    return complain(ExitCode::bad_input,
                    "--device: must be auto, cpu, cuda or cuda:N, got '" + arguments.device + "'");
  if (arguments.device.starts_with("cuda") && !arguments.file.ends_with(".cu"))
    return complain(ExitCode::bad_input,
                    "--device: a function on host arrays runs on the CPU, got '" + arguments.device + "'");
  int gpu = 0;
  if (arguments.device.starts_with("cuda:")) {
    const std::string index = arguments.device.substr(5);
    if (index.empty() || index.size() > 3 || index.find_first_not_of("0123456789") != std::string::npos)
      return complain(ExitCode::bad_input,
                      "--device: must be auto, cpu, cuda or cuda:N, got '" + arguments.device + "'");
    gpu = std::stoi(index);
  }
  for (const std::string* path : {&arguments.json, &arguments.html})
    if (!path->empty() && *path != "-")
      if (Status status = files::check_destination(*path); !status.ok()) return complain(status);

  StageProgress progress;
  progress.done(0);
  judge::JudgeOptions options;
  options.effort = arguments.full ? judge::Effort::full : judge::Effort::quick;
  options.seed = arguments.seed;
  options.threads = arguments.threads == 0 ? cores : arguments.threads;
  options.helpers = cores;
  options.only_case = arguments.only_case;
  options.gpu = gpu;
  options.longest = arguments.longest;
  options.progress = [&](const std::string& stage, double share) {
    if (share > 0) progress.done(share);
    progress(stage);
  };
  Result<judge::Report> judged = judge::judge(arguments.file, options);
  progress.clear();
  if (!judged.ok()) return complain(judged.status());
  const judge::Report& report = judged.value();
  if (arguments.json == "-") {
    print_result(judge::report_json(report));
  } else {
    const bool color = !arguments.no_color && isatty(STDOUT_FILENO) != 0 && !std::getenv("NO_COLOR");
    print_result(judge::report_text(report, {color}));
    if (!arguments.json.empty()) {
      if (Status status = write_file(arguments.json, judge::report_json(report)); !status.ok())
        return complain_unwritten(status);
      print_aside("runmax: wrote " + arguments.json + "\n");
    }
  }
  if (!arguments.html.empty()) {
    const std::string title = "runmax judge: " + std::filesystem::path(report.file).filename().string();
    if (Status status = page::write_report(arguments.html, title, judge::report_json(report)); !status.ok())
      return complain_unwritten(status);
    print_aside("runmax: wrote " + arguments.html + "\n");
  }
  return exit_code_of(report);
}

ExitCode judge_new_command(const JudgeNewArguments& arguments) {
  const std::string suffix = std::filesystem::path(arguments.file).extension().string();
  const std::string tier = !arguments.tier.empty() ? arguments.tier : suffix == ".cu" ? "device" : "host";
  if (tier != "host" && tier != "device")
    return complain(ExitCode::bad_input, "--tier: must be host or device, got '" + tier + "'");
  const bool device = tier == "device";
  if (device ? suffix != ".cu" : suffix != ".cpp")
    return complain(ExitCode::bad_input, fmt::format("{}: must end in {} for the {} tier", arguments.file,
                                                     device ? ".cu" : ".cpp", tier));
  if (std::filesystem::exists(arguments.file))
    return complain(ExitCode::bad_input, arguments.file + ": exists already, and is not written over");
  if (Status status = files::check_destination(arguments.file); !status.ok()) return complain(status);
  if (Status status =
          write_file(arguments.file, judge::starter(device ? judge::Tier::device : judge::Tier::host));
      !status.ok())
    return complain_unwritten(status);
  print_result(fmt::format("{}: right, and slow. Next: runmax judge {}\n", arguments.file, arguments.file));
  return ExitCode::done;
}

ExitCode judge_hint_command(int number) {
  const std::string hint(judge::exercise_hint(number));
  if (hint.empty()) return complain(ExitCode::bad_input, fmt::format("hint: must be 1 or 2, got {}", number));
  print_result(measure::paragraph(hint, 0, 100));
  return ExitCode::done;
}

}  // namespace runmax::cli
