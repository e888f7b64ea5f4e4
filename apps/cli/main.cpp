// The command line of `runmax`: options to argument structs, and nothing else.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "judge/worker/protocol.hpp"
#include "judge/worker/worker.hpp"
#include "runmax/version.hpp"

namespace {

using namespace runmax::cli;

// CLI11 alone takes -1 for the largest number and cuts what is too large to it.
std::string seed_complaint(const std::string& text) {
  std::uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seed);
  return error == std::errc() && stop == end ? ""
                                             : "must be an unsigned integer of 64 bits, got '" + text + "'";
}

// "256,1024,4096"; nothing if any piece is not a number of 64 bits.
std::vector<std::int64_t> lengths_of(std::string_view text) {
  std::vector<std::int64_t> lengths;
  while (true) {
    const std::string_view piece = text.substr(0, text.find(','));
    std::int64_t length = 0;
    const auto [stop, error] = std::from_chars(piece.data(), piece.data() + piece.size(), length);
    if (error != std::errc() || stop != piece.data() + piece.size()) return {};
    lengths.push_back(length);
    if (piece.size() == text.size()) return lengths;
    text.remove_prefix(piece.size() + 1);
  }
}

std::string lengths_complaint(const std::string& text) {
  return lengths_of(text).empty() ? "must be integers of 64 bits separated by commas, got '" + text + "'"
                                  : "";
}

const char* const device_help = "auto (the GPU if there is one), cpu, cuda or cuda:N";

// Help that opens with what the command is for and examples; lists of commands show the first sentence alone.
class ExampleFormatter : public CLI::Formatter {
 public:
  explicit ExampleFormatter(std::string examples) : examples_(std::move(examples)) {}
  std::string make_description(const CLI::App* app) const override {
    return app->get_description() + "\n\n" + examples_ + "\n\n";
  }

 private:
  std::string examples_;
};

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& summary,
                      const std::string& examples) {
  CLI::App* command = app.add_subcommand(name, summary);
  command->formatter(std::make_shared<ExampleFormatter>(examples));
  return command;
}

// What plan, check and run share: where, by which kernel, and in which form the answer comes.
template <class Arguments>
void add_choices(CLI::App* command, Arguments& arguments,
                 const char* kernel_help = "Force a kernel of `runmax list`") {
  command->add_option("--device", arguments.device, device_help);
  command->add_option("--kernel", arguments.kernel, kernel_help);
  command->add_option("--threads", arguments.threads, "CPU: at most this many threads (0 is all)");
  command->add_option("--num-splits", arguments.num_splits,
                      "Split the keys into so many parts (0 is automatic)");
  command->add_flag("--json", arguments.json, "One JSON object on stdout");
}

}  // namespace

int main(int argc, char** argv) {
  // The judge starts this program again as the process in which a candidate runs.
  if (argc == 2 && std::string_view(argv[1]) == runmax::judge::worker_command)
    return runmax::judge::worker_main();

  CLI::App app{
      "runmax: exact attention that carries a maximum, not a matrix.\n\n"
      "  runmax lab                                         naive against online on this machine\n"
      "  runmax plan b2:hq32:hk8:q1024:k1024:d128:causal    what would run, and with which workspace\n"
      "  runmax check q1024:d64:in=loud                     run it and compare with the reference\n"
      "  runmax run --q q.npy --k k.npy --v v.npy --out o.npy\n"
      "  runmax bench hq8:q2048:d64                         how fast, beside what this machine can do\n"
      "  runmax judge mine.cpp                              check your own kernel, and say what is wrong "
      "with it\n"
      "  runmax list                                        every kernel of this build\n"
      "  runmax page -o runmax.html                         step through it in a browser, and see what was "
      "measured\n"};
  app.set_version_flag("--version", std::string("runmax ") + runmax::version());
  app.require_subcommand(1);
  app.failure_message(
      [](const CLI::App*, const CLI::Error& error) { return std::string("runmax: ") + error.what() + "\n"; });
  ExitCode code = ExitCode::done;

  PlanArguments plan;
  CLI::App* plan_app = add_command(
      app, "plan", "Show what would run for a problem, without running it",
      "  runmax plan b2:hq32:hk8:q1024:k1024:d128:causal\n"
      "  runmax plan q131072:d64 --json\n\n"
      "Fields of a problem: bN hqN hkN qN kN dN dvN; f32 f16 bf16 f64 e4m3 i8; ieee tf32; causal\n"
      "causal=top_left window=L,R scale=S softcap=C mask bias alibi sink dropout=P varlen=Q/K,... paged=N\n"
      "seqused batch_invariant; in=KIND seed=N. docs/problem.md says what each is.");
  plan_app
      ->add_option("problem", plan.problem,
                   "Problem text, for example q4096:d64 or b2:hq32:hk8:q1024:d128:causal")
      ->required();
  plan_app->add_flag("--backward", plan.backward, "Plan the gradients dQ, dK and dV instead");
  add_choices(plan_app, plan);
  plan_app->callback([&] { code = plan_command(plan); });

  ListArguments list;
  CLI::App* list_app = add_command(app, "list", "List the kernels",
                                   "  runmax list\n"
                                   "  runmax list --json");
  list_app->add_flag("--json", list.json, "One JSON object on stdout");
  list_app->callback([&] { code = list_command(list); });

  CheckArguments check;
  CLI::App* check_app = add_command(
      app, "check", "Draw a problem's inputs, run a kernel and compare with the double-precision reference",
      "  runmax check q1024:d64:in=loud\n"
      "  runmax check b2:hq8:hk2:q300:k500:d80:causal --kernel all --device cpu\n"
      "  runmax check hq4:hk2:q1024:d64:causal --backward\n\n"
      "Fields of a problem: see `runmax plan --help`. Kinds of data: in=normal, loud, onesign, wide, equal,\n"
      "needle, rising, falling, hot.");
  check_app->add_option("problem", check.problem, "Problem text, for example q1024:d64:in=loud")->required();
  check_app->add_option("--seed", check.seed, "Seed of the inputs (or seed=N in the problem)")
      ->check(seed_complaint);
  check_app->add_option("--rows", check.rows,
                        "Compare at most so many query rows of each head (0: as many as take a few seconds)");
  check_app->add_flag("--backward", check.backward,
                      "Draw dO too, run backward, and compare dQ, dK and dV with their own reference");
  add_choices(check_app, check, "A kernel of `runmax list`, or all; else what the plan chooses");
  check_app->callback([&] { code = check_command(check); });

  RunArguments run;
  CLI::App* run_app = add_command(
      app, "run", "Attention on your own arrays",
      "  runmax run --q q.npy --k k.npy --v v.npy --causal --out o.npy --lse lse.npy\n"
      "  runmax run --q q.npy --k k.npy --v v.npy --out o.npy --dout do.npy --dq dq.npy --dk dk.npy --dv "
      "dv.npy\n"
      "  runmax run --in qkv.safetensors --layout bhsd --out o.safetensors\n\n"
      "Arrays have 2 dimensions (length, dim), 3 (length, heads, dim) or 4 (batch, length, heads, dim); "
      "with\n"
      "--layout bhsd the heads stand before the length. o has the shape of q with the dim of v; lse is\n"
      "(batch, heads, length) in both layouts. o has the type of the inputs; float16 and bfloat16 are\n"
      "computed in float32. Outputs appear whole or not at all.");
  run_app->add_option("--q", run.q, "Queries, .npy of type <f4, <f2 or <f8");
  run_app->add_option("--k", run.k, "Keys, .npy");
  run_app->add_option("--v", run.v, "Values, .npy");
  run_app->add_option("--in", run.in,
                      "Instead of these: .safetensors with the tensors q, k and v (F32, F16, BF16, F64)");
  run_app->add_option("--out", run.out, "Output, .npy; with --in a .safetensors with o and lse")->required();
  run_app->add_option("--lse", run.lse, "Also write the log of the sum of exponentials, .npy");
  run_app->add_option("--dout", run.dout,
                      "The gradient of the output, .npy of its shape: also compute gradients, on the CPU");
  run_app->add_option("--dq", run.dq, "With --dout: the gradient of the queries, .npy");
  run_app->add_option("--dk", run.dk, "With --dout: the gradient of the keys, .npy");
  run_app->add_option("--dv", run.dv, "With --dout: the gradient of the values, .npy");
  run_app->add_option("--dbias", run.dbias, "With --dout: the gradient of the bias, .npy");
  run_app->add_option("--dsink", run.dsink, "With --dout: the gradient of the sink, .npy");
  run_app->add_option("--layout", run.layout, "Order of dimensions: bshd (the default) or bhsd");
  run_app->add_option("--softmax-scale,--scale", run.softmax_scale,
                      "Factor of q.k; 1/sqrt(dim) if not given");
  run_app->add_flag("--causal", run.causal,
                    "Key j is visible to query i iff j <= i + (kv length - query length)");
  run_app->add_option("--causal-align", run.causal_align,
                      "bottom-right (the default) or top-left: iff j <= i");
  run_app->add_option("--window,--window-size", run.window,
                      "LEFT,RIGHT: inclusive distances from the diagonal; -1 is unbounded");
  run_app->add_option("--softcap", run.softcap, "Scores become C * tanh(score / C); 0 is off");
  run_app->add_option(
      "--mask", run.mask,
      "True may attend: .npy of type |b1 or |u1, (batch, heads, queries, keys) or what broadcasts");
  run_app->add_option("--bias", run.bias, "Added to the score, likewise; -inf hides a key");
  run_app->add_option("--alibi-slopes", run.alibi_slopes,
                      "Subtracts slope * distance from the diagonal: .npy, (heads) or (batch, heads)");
  run_app->add_option("--sink", run.sink, "One more score of every row, without a value: .npy, (heads)");
  run_app->add_option("--dropout", run.dropout,
                      "Probability of dropping a weight; kept ones times 1/(1 - P)");
  run_app->add_option("--dropout-seed", run.dropout_seed, "Which weights are dropped (0)");
  run_app->add_option("--dropout-offset", run.dropout_offset, "Calls with other offsets drop others (0)");
  run_app->add_option("--arithmetic", run.arithmetic, "fp32-grade (the default), ieee or tf32");
  run_app->add_option("--dtype", run.dtype,
                      "stored (the default): the type of the arrays; f32: convert them to it first");
  run_app->add_option(
      "--cu-seqlens-q", run.cu_seqlens_q,
      "Packed sequences: the rows of q where each begins, and the end; integers, .npy, or with "
      "--in the name of a tensor");
  run_app->add_option("--cu-seqlens-k", run.cu_seqlens_k, "Likewise for k and v");
  run_app->add_option(
      "--page-table", run.page_table,
      "k and v are (pages, page size, heads, dim); (batch, columns) integers say which are whose");
  run_app->add_option("--seqused", run.seqused, "How many keys each batch element uses; (batch,) integers");
  run_app->add_flag(
      "--check", run.check,
      "Compare with the double-precision reference first; if rejected, exit 1 and write nothing");
  add_choices(run_app, run);
  run_app->callback([&] { code = run_command(run); });

  LabArguments lab;
  CLI::App* lab_app = add_command(
      app, "lab", "Measure naive attention against online attention on this machine, and say what it means",
      "  runmax lab\n"
      "  runmax lab --n 256,1024,4096 --pitfalls\n"
      "  runmax lab --device cpu --json > lab.json\n"
      "  runmax lab --html lab.html");
  lab_app->add_option("--device", lab.device, device_help)->capture_default_str();
  std::string lengths = "256,1024,4096";
  lab_app->add_option("--n", lengths, "Sequence lengths")->check(lengths_complaint)->capture_default_str();
  lab_app->add_option("--seed", lab.seed, "Seed of the inputs")->check(seed_complaint)->capture_default_str();
  lab_app->add_option("--threads", lab.threads, "CPU: at most this many threads (0 is all)");
  lab_app->add_option("--time-limit", lab.time_limit, "CPU: skip a path of which one run takes more seconds")
      ->capture_default_str();
  lab_app->add_flag("--pitfalls", lab.pitfalls, "Also make the lesson's mistakes, and measure each");
  lab_app->add_flag("--json", lab.json, "One JSON object on stdout, schema runmax.lab");
  lab_app->add_option("--html", lab.html, "Also write the report as one self-contained HTML file");
  lab_app->add_flag("--no-color", lab.no_color, "Plain text even on a terminal (as NO_COLOR does)");
  lab_app->callback([&] {
    lab.lengths = lengths_of(lengths);
    code = lab_command(lab);
  });

  JudgeArguments judge;
  CLI::App* judge_app = add_command(
      app, "judge", "Check your own attention kernel, say what is wrong with it, and when it starts to win",
      "  runmax judge new mine.cpp           a file to begin with: right, slow, every argument explained\n"
      "  runmax judge mine.cpp               build it, check it, time it against the naive path, explain\n"
      "  runmax judge mine.cu                the same for a CUDA kernel; needs nvcc to build, a GPU to run\n"
      "  runmax judge mine.cpp --case loud-last --seed 7     one case again\n\n"
      "Exit code: 0 accepted, 1 rejected, 2 usage or bad input, 4 the machine lacks something (a GPU, a\n"
      "compiler), 5 it does not build, 6 it crashed or did not return. docs/judge.md has the manifest, the "
      "cases\n"
      "and what the figures mean.");
  judge_app->add_option("file", judge.file, "The candidate: .cpp, .c, .cu, or a built .so");
  judge_app->add_option("--device", judge.device, device_help)->capture_default_str();
  judge_app->add_option("--seed", judge.seed, "Seed of the data; else drawn once the candidate is built")
      ->check(seed_complaint);
  judge_app->add_flag("--quick", judge.quick, "At most a minute for an honest kernel (the default)");
  judge_app->add_flag("--full", judge.full, "At most ten minutes: longer lengths, more rounds");
  judge_app->add_option("--case", judge.only_case, "Only the case of this name, untimed");
  judge_app
      ->add_option("--threads", judge.threads, "Cores of the candidate, threads of the naive path (0 is all)")
      ->capture_default_str();
  judge_app->add_option("--max-n", judge.longest, "Time no length above this (0: as far as time allows)")
      ->check(CLI::NonNegativeNumber);
  judge_app->add_option("--json", judge.json,
                        "Also write the report as JSON, schema runmax.judge; - is stdout");
  judge_app->add_option("--html", judge.html, "Also write the report as one self-contained HTML file");
  judge_app->add_flag("--no-color", judge.no_color, "Plain text even on a terminal (as NO_COLOR does)");
  JudgeNewArguments judge_new;
  CLI::App* judge_new_app = add_command(*judge_app, "new", "Write a file to begin with",
                                        "  runmax judge new mine.cpp\n"
                                        "  runmax judge new mine.cu --tier device");
  judge_new_app->add_option("file", judge_new.file, "The file to write; none is written over")->required();
  judge_new_app->add_option("--tier", judge_new.tier,
                            "host (a C++ function) or device (a CUDA kernel); else by suffix");
  int judge_hint = 0;
  CLI::App* judge_hint_app = add_command(*judge_app, "hint", "Print a hint of the exercise",
                                         "  runmax judge hint 1\n"
                                         "  runmax judge hint 2");
  judge_hint_app->add_option("number", judge_hint, "1, or after some more thought 2")->required();
  judge_hint_app->callback([&] { code = judge_hint_command(judge_hint); });
  judge_new_app->callback([&] { code = judge_new_command(judge_new); });
  judge_app->callback([&] {
    if (!judge_app->get_subcommands().empty()) return;
    if (judge.file.empty()) throw CLI::RequiredError("file");
    code = judge_command(judge);
  });

  PageArguments page;
  CLI::App* page_app = add_command(
      app, "page", "Write the page: step through online softmax, what it costs, and what was measured",
      "  runmax page -o runmax.html\n"
      "  runmax page -o runmax.html --record lab.json other.json\n\n"
      "One HTML file that needs no network and no other file. It appears whole or not at all. Records are "
      "what\n"
      "`runmax lab --json` and `runmax bench --json` print; without --record the page shows those that "
      "ship.");
  page_app->add_option("-o,--output", page.output, "The file to write")->required();
  page_app->add_option("--record", page.records, "Records to show, one or more files");
  page_app->callback([&] { code = page_command(page); });

  BenchArguments bench;
  CLI::App* bench_app = add_command(
      app, "bench", "Time kernels on problems, beside what this machine can do at most",
      "  runmax bench hq8:q2048:d64 hq8:q2048:d64:causal\n"
      "  runmax bench q4096:d64 --kernel cpu_online,cpu_naive\n"
      "  runmax bench hq8:q2048:d64 --backward --peers\n"
      "  runmax bench hq8:q2048:d128 --threads 1,2 --json > bench.json\n"
      "  runmax bench hq32:hk8:q1:k32768:d128 --simd AVX2\n"
      "  runmax bench b4:h32:q4096:d64 --device cuda --peers\n\n"
      "Every kernel is compared with the double-precision reference first; one that a gate rejects is not\n"
      "timed, and the exit code is 1. Fields of a problem: see `runmax plan --help`. docs/bench.md explains\n"
      "each figure.");
  bench_app->add_option("problem", bench.problems, "Problem texts; all are timed in turns")->required();
  bench_app->add_option("--device", bench.device, "cpu, cuda or cuda:N")->capture_default_str();
  bench_app->add_option("--kernel", bench.kernel, "Kernels of `runmax list`, separated by commas");
  std::string bench_threads = "0";
  bench_app->add_option("--threads", bench_threads, "Numbers of threads, separated by commas (0 is all)")
      ->check(lengths_complaint)
      ->capture_default_str();
  bench_app->add_option("--simd", bench.simd,
                        "Use only this instruction set, in kernels and probes: AVX2, SSE4");
  bench_app->add_option("--cache", bench.cache, "warm, cold or both")->capture_default_str();
  bench_app
      ->add_option("--graph-nodes", bench.graph_nodes,
                   "On a GPU: dependent runs in a graph (0: 50, fewer where they take long)")
      ->capture_default_str();
  bench_app->add_flag("--backward", bench.backward,
                      "Time the gradients instead; --kernel names a backward kernel");
  bench_app->add_flag("--peers", bench.with_peers,
                      "Also PyTorch and ggml in the same turns, by bench/peers-cpu; on a GPU PyTorch, by "
                      "bench/peers_cuda.py");
  bench_app->add_option("--peers-command", bench.peers,
                        "Other peers: a program that speaks the protocol of docs/bench.md");
  bench_app->add_option("--repeat", bench.repeat, "Rounds (0: 15, or what fits in the time limit)")
      ->capture_default_str();
  bench_app
      ->add_option("--time-limit", bench.time_limit, "Seconds of timing after which automatic rounds end")
      ->capture_default_str();
  bench_app->add_flag("--json", bench.json, "One JSON object on stdout, schema runmax.bench");
  bench_app->add_option("--html", bench.html, "Also write the report as one self-contained HTML file");
  bench_app->callback([&] {
    bench.threads = lengths_of(bench_threads);
    code = bench_command(bench);
  });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 prints help or the complaint itself; any complaint is a usage error.
    if (app.exit(error) != 0) return static_cast<int>(ExitCode::bad_input);
  } catch (const std::bad_alloc&) {
    return static_cast<int>(complain(ExitCode::environment, "out of memory"));
  } catch (const std::exception& error) {
    return static_cast<int>(complain(ExitCode::internal, error.what()));
  }
  // A result that did not reach its reader must not look like success.
  if (!result_arrived() && code == ExitCode::done)
    code = complain(ExitCode::environment, "the result cannot be written to stdout");
  return static_cast<int>(code);
}
