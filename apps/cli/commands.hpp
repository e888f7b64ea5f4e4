// The subcommands as functions of their arguments; main.cpp alone knows the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/exit_code.hpp"

namespace runmax::cli {

// Which device a command works on: "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:N".
struct PlanArguments {
  std::string problem;
  std::string device = "auto";
  std::string kernel;
  int threads = 0;
  int num_splits = 0;
  bool json = false;
};
ExitCode plan_command(const PlanArguments& arguments);

struct ListArguments {
  bool json = false;
};
ExitCode list_command(const ListArguments& arguments);

struct CheckArguments {
  std::string problem;
  std::string device = "auto";
  std::string kernel;  // a name, "all", or empty for the plan's own choice
  std::optional<std::uint64_t> seed;
  int threads = 0;
  int num_splits = 0;
  std::int64_t rows = 0;
  bool json = false;
};
ExitCode check_command(const CheckArguments& arguments);

}  // namespace runmax::cli
