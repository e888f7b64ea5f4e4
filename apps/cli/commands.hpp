// The subcommands as functions of their arguments; main.cpp alone knows the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/exit_code.hpp"

namespace runmax::cli {

// Which device a command works on: "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:N".
struct PlanArguments {
  std::string problem;
  std::string device = "auto";
  std::string kernel;
  int threads = 0;
  int num_splits = 0;
  bool backward = false;  // plan the gradients
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
  bool backward = false;  // check the gradients
  bool json = false;
};
ExitCode check_command(const CheckArguments& arguments);

// Numbers are text here and read without the locale. Empty: not given.
struct RunArguments {
  std::string q, k, v;  // .npy inputs
  std::string in;       // or one .safetensors input
  std::string out;
  std::string lse;
  std::string mask, bias, alibi_slopes, sink;  // .npy inputs; tensors of these names with `in`
  std::string dropout, dropout_seed, dropout_offset;
  std::string dout;                      // .npy; the gradient of the output: asks for gradients
  std::string dq, dk, dv, dbias, dsink;  // .npy outputs
  std::string layout = "bshd";
  std::string softmax_scale;
  std::string softcap;
  std::string window;
  std::string causal_align;
  std::string arithmetic = "fp32-grade";
  std::string dtype = "stored";            // or f32
  std::string cu_seqlens_q, cu_seqlens_k;  // .npy files of integers, or with --in names of tensors
  std::string page_table, seqused;
  std::string device = "auto";
  std::string kernel;
  int threads = 0;
  int num_splits = 0;
  bool causal = false;
  bool check = false;
  bool json = false;
};
ExitCode run_command(const RunArguments& arguments);

struct LabArguments {
  std::string device = "auto";
  std::vector<std::int64_t> lengths;
  std::uint64_t seed = 1;
  int threads = 0;
  double time_limit = 120;  // seconds that one run of one path may take
  bool pitfalls = false;
  bool json = false;
  bool no_color = false;
  std::string html;  // also write the report there; empty: not asked for
};
ExitCode lab_command(const LabArguments& arguments);

struct PageArguments {
  std::string output;
  std::vector<std::string> records;  // files; empty: those that ship
};
ExitCode page_command(const PageArguments& arguments);

struct BenchArguments {
  std::vector<std::string> problems;
  std::string device = "cpu";
  std::string kernel;                    // names between commas; empty: the plan's own choice
  std::string simd;                      // an instruction set; empty: the best
  std::vector<std::int64_t> threads{0};  // 0 is all
  std::string cache = "both";            // "warm", "cold" or "both"
  bool backward = false;
  bool with_peers = false;
  std::string peers;       // the command of a program with peers; empty: the one of bench/
  int repeat = 0;          // rounds; 0 is automatic
  double time_limit = 20;  // seconds of timing, if the rounds are automatic
  int graph_nodes = 0;     // on a GPU; 0 is automatic
  bool json = false;
  std::string html;  // also write the report there; empty: not asked for
};
ExitCode bench_command(const BenchArguments& arguments);

struct JudgeArguments {
  std::string file;
  std::string device = "auto";
  std::optional<std::uint64_t> seed;
  int threads = 1;  // 0 is all
  bool quick = false, full = false;
  std::string only_case;
  std::int64_t longest = 0;  // of the lengths that are timed; 0: as far as time allows
  std::string json;          // a file, or "-" for stdout; empty: not asked for
  std::string html;
  bool no_color = false;
};
ExitCode judge_command(const JudgeArguments& arguments);

struct JudgeNewArguments {
  std::string file, tier;
};
ExitCode judge_new_command(const JudgeNewArguments& arguments);
ExitCode judge_hint_command(int number);

}  // namespace runmax::cli
