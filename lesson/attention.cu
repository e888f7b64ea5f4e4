// The lesson's program: naive and online attention of one head, side by side, against one reference.
//
// From a clone, with the CUDA toolkit and nothing else (sm_75 or newer):
//
//   nvcc -std=c++17 -O3 -arch=sm_75 -o attention lesson/attention.cu
//
// Prints bytes before any time, then gate arithmetic, resources, results and the five predictions. Exit code:
// 0 every case passed, 1 a case failed, 2 usage, 4 no GPU or not enough memory.
#include "../src/kernels/lesson/launch.cu"  // one translation unit

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "../src/gate/gate.hpp"
#include "../src/inputs/loud.hpp"
#include "../src/reference/reference.hpp"
#include "costs.hpp"
#include "device.cuh"
#include "occupancy.hpp"
#include "predictions.hpp"
#include "resources.hpp"

namespace runmax {
namespace lesson {
namespace {

constexpr std::int64_t head_dim = OnlineConfig::head_dim;
// Beyond this length the reference looks at a sample of the query rows.
constexpr std::int64_t every_row_up_to = 8192;
constexpr std::int64_t sampled_row_count = 256;

struct Options {
  std::vector<std::int64_t> sizes{256, 1024, 4096};
  std::uint64_t seed = 1;
};

const char* const usage_text =
    "usage: attention [--n 256,1024,4096] [--seed 1]\n"
    "\n"
    "Runs one FP32 attention head of N tokens and 64 channels through two paths: naive (three kernels, the\n"
    "score matrix in memory) and online (one kernel, no matrix). Prints costs, gates, resources, results "
    "and\n"
    "five predictions.\n"
    "\n"
    "  --n LIST   sizes, multiples of 64, separated by commas\n"
    "  --seed S   of the inputs; the same seed gives the same errors\n"
    "\n"
    "exit code: 0 every case passed, 1 a case failed, 2 usage, 4 no GPU or not enough memory\n";

[[noreturn]] void usage_error(const std::string& message) {
  std::fprintf(stderr, "attention: %s (--help shows the options)\n", message.c_str());
  std::exit(exit_usage);
}

// The whole text as a number, or a usage error that names the option.
std::uint64_t parse_number(const char* option, const std::string& text) {
  errno = 0;
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
    usage_error(std::string(option) + ": needs whole numbers, got '" + text + "'");
  return value;
}

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help" || option == "-h") {
      std::printf("%s", usage_text);
      std::exit(exit_passed);
    }
    if (option != "--n" && option != "--seed") usage_error("unknown option '" + option + "'");
    if (++i == argc) usage_error(option + ": needs a value");
    if (option == "--seed") {
      options.seed = parse_number("--seed", argv[i]);
      continue;
    }
    options.sizes.clear();
    const std::string list = argv[i];
    for (std::size_t start = 0; start <= list.size();) {
      const std::size_t comma = std::min(list.find(',', start), list.size());
      const std::uint64_t n = parse_number("--n", list.substr(start, comma - start));
      constexpr std::uint64_t longest = std::uint64_t(1) << 28;  // costs are exact up to here
      if (n == 0 || n > longest || cuda_online_refuses(static_cast<std::int64_t>(n), head_dim) != nullptr)
        usage_error("--n: sizes are multiples of 64 from 64 to 2^28, got " + std::to_string(n));
      options.sizes.push_back(static_cast<std::int64_t>(n));
      start = comma + 1;
    }
  }
  return options;
}

// Properties of the first GPU; ends the program if there is none.
cudaDeviceProp require_gpu() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    std::fprintf(stderr, "attention: no GPU: %s\n",
                 error != cudaSuccess ? cudaGetErrorString(error) : "the driver lists no device");
    std::exit(exit_environment);
  }
  cudaDeviceProp properties;
  require(cudaGetDeviceProperties(&properties, 0), "reading the device's properties");
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, attention_online<OnlineConfig, Fold>) != cudaSuccess) {
    std::fprintf(stderr, "attention: this program was not built for %s: use nvcc -arch=sm_%d%d\n",
                 properties.name, properties.major, properties.minor);
    std::exit(exit_environment);
  }
  return properties;
}

void print_device(const cudaDeviceProp& device) {
  int driver = 0, runtime = 0;
  require(cudaDriverGetVersion(&driver), "reading the driver's version");
  require(cudaRuntimeGetVersion(&runtime), "reading the runtime's version");
  std::printf("%s, sm_%d%d, %d multiprocessors, CUDA driver %d.%d, runtime %d.%d\n\n", device.name,
              device.major, device.minor, device.multiProcessorCount, driver / 1000, driver % 1000 / 10,
              runtime / 1000, runtime % 1000 / 10);
}

void print_costs(const std::vector<std::int64_t>& sizes) {
  constexpr double mib = 1024.0 * 1024.0;
  std::printf("What the matrix costs, one head, d = %lld (MiB)\n", static_cast<long long>(head_dim));
  std::printf("%9s %12s %12s %10s %8s %14s %10s %10s\n", "n", "matrix", "naive", "floor", "ratio",
              "online asks", "flop/B", "flop/B");
  std::printf("%9s %12s %12s %10s %8s %14s %10s %10s\n", "", "4n^2", "20n^2+16nd", "16nd", "", "", "naive",
              "floor");
  for (const std::int64_t n : sizes) {
    const Costs c = attention_costs(n, head_dim);
    std::printf("%9lld %12.2f %12.2f %10.2f %7.1fx %14.2f %10.1f %10.1f\n", static_cast<long long>(n),
                static_cast<double>(c.score_bytes) / mib, static_cast<double>(c.naive_bytes) / mib,
                static_cast<double>(c.floor_bytes) / mib, c.ratio,
                static_cast<double>(c.online_requested_bytes) / mib, c.naive_intensity, c.online_intensity);
  }
  std::printf(
      "Both paths do 4 n^2 d flops. Online asks for keys and values once per %lld query rows; whether that\n"
      "reaches DRAM or stops at L2 this program cannot know.\n\n",
      static_cast<long long>(query_rows_per_block));
}

void print_gates(const std::vector<std::int64_t>& sizes) {
  std::printf("Gates: |o - reference| <= rtol * A*, A* = A + 2^-16 max A, A = sum_j p_j |v_j|; all finite\n");
  for (const std::int64_t n : sizes) std::printf("  rtol = %s\n", gate::lesson_rule(n).c_str());
  std::printf("\n");
}

MultiprocessorLimits limits_of(const cudaDeviceProp& device) {
  MultiprocessorLimits limits;
  limits.compute_capability = device.major * 10 + device.minor;
  limits.max_threads = device.maxThreadsPerMultiProcessor;
  limits.max_blocks = device.maxBlocksPerMultiProcessor;
  limits.registers = device.regsPerMultiprocessor;
  limits.shared_bytes = static_cast<int>(device.sharedMemPerMultiprocessor);
  limits.reserved_shared_bytes_per_block = static_cast<int>(device.reservedSharedMemPerBlock);
  limits.shared_unit_bytes = shared_unit_bytes(limits.compute_capability);
  return limits;
}

std::vector<ResourceFigures> print_resources(const cudaDeviceProp& device) {
  KernelResources kernels[kernel_count];
  require(read_resources(kernels), "reading the kernels' resources");
  const std::vector<ResourceFigures> figures = resource_figures(kernels, limits_of(device));
  std::printf("Resources: what the runtime reports, and blocks by arithmetic from the device's limits\n");
  std::printf("%-20s %7s %12s %9s %10s %9s %10s %s\n", "kernel", "threads", "shared bytes", "registers",
              "blocks/SM", "predicted", "occupancy", "limited by");
  for (const ResourceFigures& kernel : figures)
    std::printf("%-20s %7d %12d %9d %10d %9d %8.0f %% %s\n", kernel.kernel.c_str(), kernel.threads,
                kernel.shared_bytes, kernel.registers, kernel.blocks, kernel.expected_blocks,
                100 * kernel.occupancy, kernel.limited_by);
  std::printf("\n");
  return figures;
}

// One path at one size.
struct PathResult {
  bool ran = false;
  std::vector<float> out;
  bool same_bits_again = true;
  Summary cold, warm;
};

// Runs a path for its answer, times it, and runs it once more for the same bits.
template <class Launch>
PathResult run_path(DeviceFloats& o, Timer& timer, Launch launch) {
  PathResult result;
  result.ran = true;
  o.poison();
  require(launch(), "launching a kernel");
  result.out = o.to_host();
  result.cold = timer.cold(launch);
  result.warm = timer.warm(launch);
  o.poison();
  require(launch(), "launching a kernel");
  const std::vector<float> again = o.to_host();
  result.same_bits_again = std::memcmp(result.out.data(), again.data(), again.size() * sizeof(float)) == 0;
  return result;
}

void print_result(std::int64_t n, const char* path, const PathResult& result, const gate::Verdict& verdict,
                  const std::string& against_naive, const std::string& ratio) {
  std::printf("%9lld %-18s %11.3e %9.4f %9s %10.4f %5.1f%% %10.4f %5.1f%% %12s\n", static_cast<long long>(n),
              path, verdict.max_abs_error, verdict.gate_fraction, against_naive.c_str(), result.cold.median,
              100 * result.cold.spread, result.warm.median, 100 * result.warm.spread, ratio.c_str());
}

// Says what is wrong with a case, if anything is; true if it passed.
bool judge(const gate::Verdict& verdict, const std::string& name, std::int64_t n, std::uint64_t seed) {
  if (verdict.passed) return true;
  const std::string repeat = "attention --n " + std::to_string(n) + " --seed " + std::to_string(seed);
  std::printf("%s", gate::describe(verdict, name, gate::lesson_rule(n), repeat).c_str());
  return false;
}

bool judge_bits(const PathResult& result, const char* path, std::int64_t n) {
  if (result.same_bits_again) return true;
  std::printf("%s at n = %lld: FAILED, a second run gave other bits\n", path, static_cast<long long>(n));
  return false;
}

// Runs both paths at one size, prints their lines, and adds to `figures` if both ran.
bool run_size(std::int64_t n, std::uint64_t seed, Timer& timer, std::vector<SizeFigures>& figures) {
  const std::size_t count = static_cast<std::size_t>(n * head_dim);
  std::vector<float> q(count), k(count), v(count);
  inputs::draw_loud_head(seed, n, head_dim, q.data(), k.data(), v.data());
  const DeviceFloats q_device(q), k_device(k), v_device(v);
  DeviceFloats o_device(count);

  std::fprintf(stderr, "n = %lld: running both paths\n", static_cast<long long>(n));
  PathResult naive;
  std::size_t free_bytes = 0, total_bytes = 0;
  require(cudaMemGetInfo(&free_bytes, &total_bytes), "reading the free memory");
  if (cuda_naive_refuses(n, head_dim) == nullptr && naive_fits(n, static_cast<std::int64_t>(free_bytes))) {
    const DeviceFloats scores(naive_matrix_bytes(n) / sizeof(float));
    const DeviceFloats weights(naive_matrix_bytes(n) / sizeof(float));
    naive = run_path(o_device, timer, [&] {
      return launch_naive(q_device.data(), k_device.data(), v_device.data(), o_device.data(), scores.data(),
                          weights.data(), n, nullptr);
    });
  }
  const PathResult online = run_path(o_device, timer, [&] {
    return launch_online(q_device.data(), k_device.data(), v_device.data(), o_device.data(), n, nullptr);
  });

  reference::Head<float> head;
  head.q = {q.data(), head_dim, 1};
  head.k = {k.data(), head_dim, 1};
  head.v = {v.data(), head_dim, 1};
  head.query_len = head.kv_len = n;
  head.head_dim = head.value_dim = head_dim;
  head.scale = default_scale;
  const std::vector<std::int64_t> rows =
      n <= every_row_up_to ? reference::all_rows(n) : reference::sampled_rows(n, sampled_row_count);
  const int threads = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
  std::fprintf(stderr, "n = %lld: reference in double, %zu rows on %d threads\n", static_cast<long long>(n),
               rows.size(), threads);
  gate::LessonGate naive_gate(n), online_gate(n), online_against_naive(n);
  reference::for_each_reference_row(
      head, rows, reference::AllKeys{n}, threads, [&](std::int64_t i, const reference::Row<double>& row) {
        const float* online_row = online.out.data() + i * head_dim;
        online_gate.add_row(0, 0, i, row, online_row, 1);
        if (!naive.ran) return;
        const float* naive_row = naive.out.data() + i * head_dim;
        naive_gate.add_row(0, 0, i, row, naive_row, 1);
        online_against_naive.add_row_against(0, 0, i, row, naive_row, 1, online_row, 1);
      });

  bool passed = true;
  const gate::Verdict online_verdict = online_gate.verdict();
  if (naive.ran) {
    const gate::Verdict naive_verdict = naive_gate.verdict();
    const gate::Verdict against = online_against_naive.verdict();
    char fraction[32], ratio[32];
    std::snprintf(fraction, sizeof fraction, "%.4f", against.gate_fraction);
    std::snprintf(ratio, sizeof ratio, "%.3f", naive.warm.median / online.warm.median);
    print_result(n, "naive, 3 kernels", naive, naive_verdict, "", "");
    print_result(n, "online, 1 kernel", online, online_verdict, fraction, ratio);
    const bool gates = judge(naive_verdict, "naive against the reference", n, seed) &
                       judge(online_verdict, "online against the reference", n, seed) &
                       judge(against, "online against naive", n, seed);
    passed = gates & judge_bits(naive, "naive", n);
    SizeFigures size;
    size.n = n;
    size.gates_passed = gates;
    size.naive_gate_fraction = naive_verdict.gate_fraction;
    size.online_gate_fraction = online_verdict.gate_fraction;
    size.online_vs_naive_gate_fraction = against.gate_fraction;
    size.naive_max_abs_error = naive_verdict.max_abs_error;
    size.online_max_abs_error = online_verdict.max_abs_error;
    size.naive_ms = naive.warm.median;
    size.online_ms = online.warm.median;
    figures.push_back(size);
  } else {
    std::printf("%9lld %-18s not run: its two matrices, %.1f GiB, do not fit in 80 %% of the free memory\n",
                static_cast<long long>(n), "naive, 3 kernels",
                2 * static_cast<double>(naive_matrix_bytes(n)) / (1024.0 * 1024.0 * 1024.0));
    print_result(n, "online, 1 kernel", online, online_verdict, "", "");
    passed = judge(online_verdict, "online against the reference", n, seed);
  }
  return passed & judge_bits(online, "online", n);
}

int run(const Options& options) {
  const cudaDeviceProp device = require_gpu();
  print_device(device);
  print_costs(options.sizes);
  print_gates(options.sizes);
  const std::vector<ResourceFigures> resources = print_resources(device);

  std::printf("Results, seed %llu: key n - 3 is every row's largest score\n",
              static_cast<unsigned long long>(options.seed));
  std::printf("cold: L2 flushed before each run; warm: runs back to back; median, and half the\n");
  std::printf("interquartile range over it; naive/online from the warm medians\n");
  std::printf("%9s %-18s %11s %9s %9s %10s %6s %10s %6s %12s\n", "n", "path", "max abs err", "gate",
              "vs naive", "cold ms", "+-", "warm ms", "+-", "naive/online");
  Timer timer(static_cast<std::size_t>(device.l2CacheSize));
  std::vector<SizeFigures> figures;
  bool passed = true;
  for (const std::int64_t n : options.sizes) {
    passed = run_size(n, options.seed, timer, figures) & passed;
    std::fflush(stdout);
  }

  std::printf("\nPredictions\n");
  int number = 0;
  for (const Prediction& prediction : five_predictions(figures, resources, "")) {
    std::printf("  %d. %s: %s.\n     %s%s%s.\n", ++number, outcome_name(prediction.outcome),
                prediction.name.c_str(), prediction.figures.c_str(), prediction.figures.empty() ? "" : "; ",
                prediction.reason.c_str());
  }
  std::printf("\n%s\n", passed ? "All cases passed." : "A case FAILED: see above.");
  return passed ? exit_passed : exit_failed;
}

}  // namespace
}  // namespace lesson
}  // namespace runmax

int main(int argc, char** argv) { return runmax::lesson::run(runmax::lesson::parse_options(argc, argv)); }
