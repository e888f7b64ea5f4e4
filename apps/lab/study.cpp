#include "lab/study.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "gate/gate.hpp"
#include "lab/data.hpp"
#include "measure/units.hpp"
#include "runmax/runmax.hpp"

namespace runmax::lab {
namespace {

struct PathName {
  const char* path;
  const char* kernel;  // empty: the engine's own pick
};

std::vector<PathName> paths(DeviceKind kind) {
  if (kind == DeviceKind::cuda)
    return {{"naive", "cuda_lesson_naive"}, {"online", "cuda_lesson_online"}, {"runmax", ""}};
  return {{"naive", "cpu_naive"}, {"online", "cpu_lesson_online"}, {"runmax", ""}};
}

// The memory of one path: Q, K, V, O and the workspace, with the output poisoned.
struct Operands {
  Buffer q, k, v, o, workspace;

  std::vector<const Buffer*> all() const { return {&q, &k, &v, &o, &workspace}; }
};

Result<Operands> make_operands(const Plan& plan, const Data& data, MemoryLedger& ledger) {
  Operands operands;
  const auto query_bytes = static_cast<std::size_t>(plan.problem.query_len * head_dim) * sizeof(float);
  struct Wanted {
    Buffer* buffer;
    std::size_t bytes;
    const std::vector<float>* source;
  };
  for (const Wanted& wanted :
       {Wanted{&operands.q, query_bytes, &data.q}, Wanted{&operands.k, data.bytes(), &data.k},
        Wanted{&operands.v, data.bytes(), &data.v}, Wanted{&operands.o, query_bytes, nullptr},
        Wanted{&operands.workspace, plan.workspace_bytes, nullptr}}) {
    Result<Buffer> buffer = Buffer::allocate(plan.device, wanted.bytes, ledger);
    if (!buffer.ok()) return buffer.status();
    *wanted.buffer = std::move(buffer.value());
    if (wanted.source)
      if (Status status = wanted.buffer->from_host(wanted.source->data(), wanted.bytes); !status.ok())
        return status;
  }
  // Poison: an element that no kernel writes must not pass.
  const std::vector<float> poison(query_bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
  if (Status status = operands.o.from_host(poison.data(), query_bytes); !status.ok()) return status;
  return operands;
}

Bench::Work work_of(const Plan& plan, const Operands& operands, Stream stream) {
  const auto view = [&](const Buffer& buffer, std::int64_t length) {
    return packed_view(buffer.data(), DType::f32, {1, 1, length, head_dim}, Layout::bhsd, plan.device);
  };
  Tensors tensors;
  tensors.q = view(operands.q, plan.problem.query_len);
  tensors.k = view(operands.k, plan.problem.kv_len);
  tensors.v = view(operands.v, plan.problem.kv_len);
  tensors.o = view(operands.o, plan.problem.query_len);
  const Workspace workspace{operands.workspace.data(), operands.workspace.bytes()};
  return [plan, tensors, workspace, stream] { return run(plan, tensors, workspace, stream); };
}

// Seconds that one run would take, from a run over `rows` of its query rows; nothing if that does not work.
std::optional<double> extrapolated_seconds(const Plan& whole, const Data& data, std::int64_t rows,
                                           const StudyOptions& options, Bench& bench) {
  Result<Plan> part = plan(lab_problem(rows, data.n, options.seed), options.facts,
                           {.kernel = whole.kernel, .threads = options.threads});
  if (!part.ok()) return std::nullopt;
  MemoryLedger ledger;
  Result<Operands> operands = make_operands(part.value(), data, ledger);
  if (!operands.ok()) return std::nullopt;
  const Bench::Work work = work_of(part.value(), operands.value(), bench.stream());
  const auto begin = std::chrono::steady_clock::now();
  if (!work().ok()) return std::nullopt;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return seconds.count() * static_cast<double>(data.n) / static_cast<double>(rows);
}

// The seconds of one run if they are beyond the limit. Only long runs on the CPU are tried at all.
std::optional<double> too_many_seconds(const Plan& whole, const Data& data, const StudyOptions& options,
                                       Bench& bench) {
  constexpr std::int64_t few_rows = 64, more_rows = 1024;
  const std::int64_t rows = few_rows * options.threads;
  if (whole.device.kind == DeviceKind::cuda || data.n < 64 * rows) return std::nullopt;
  std::optional<double> seconds = extrapolated_seconds(whole, data, rows, options, bench);
  // A few rows do not pay for what a kernel prepares once, so a doubtful case is tried with more.
  if (seconds && *seconds > options.time_limit_s && *seconds < 10 * options.time_limit_s)
    seconds =
        extrapolated_seconds(whole, data, std::min(more_rows * options.threads, data.n), options, bench);
  return seconds && *seconds > options.time_limit_s ? seconds : std::nullopt;
}

void judge(const Data& data, const std::vector<float>& got, const std::vector<float>* naive,
           PathResult& result) {
  gate::LessonGate reference_gate(data.n), naive_gate(data.n);
  for (std::size_t r = 0; r < data.rows.size(); ++r) {
    const std::int64_t row = data.rows[r];
    reference_gate.add_row(0, 0, row, data.reference[r], got.data() + row * head_dim, 1);
    if (naive)
      naive_gate.add_row_against(0, 0, row, data.reference[r], naive->data() + row * head_dim, 1,
                                 got.data() + row * head_dim, 1);
  }
  result.rows_gated = static_cast<std::int64_t>(data.rows.size());
  result.rtol = gate::lesson_rtol(data.n);
  result.against_reference = reference_gate.verdict();
  if (naive) result.against_naive = naive_gate.verdict();
  result.outcome = Outcome::ok;
  const auto fail = [&](const gate::Verdict& verdict, const char* against) {
    if (verdict.passed || result.outcome == Outcome::failed) return;
    result.outcome = Outcome::failed;
    const gate::Offender& o = verdict.offender;
    result.reason =
        fmt::format("against {}: query row {}, head dimension {}: got {:.9g}, want {:.9g}, bound {:.3e}",
                    against, o.row, o.dim, o.got, o.want, o.bound);
  };
  fail(result.against_reference, "the reference");
  if (result.against_naive) fail(*result.against_naive, "naive");
}

Result<double> measured_share(const PathResult& result, double& fma_rate, Bench& bench) {
  const double flops = lesson::attention_costs(result.n, head_dim).flops;
  const double seconds = result.warm->median * 1e-3;
  Result<double> share = share_of_peak(flops, seconds, fma_rate);
  for (int attempt = 0; attempt < 3 && !share.ok(); ++attempt) {
    Result<double> again = bench.fma_rate();
    if (!again.ok()) return again.status();
    fma_rate = std::max(fma_rate, again.value());
    share = share_of_peak(flops, seconds, fma_rate);
  }
  if (!share.ok())
    return Status(share.status().code(),
                  fmt::format("{} (N = {}, {})", share.status().message(), result.n, result.kernel));
  return share;
}

// Plans, checks memory and time, runs, gates, times. `naive` is the naive path's output, if it ran; `output`
// receives this one's.
Status study_path(const PathName& name, Data& data, const StudyOptions& options, Bench& bench,
                  const std::vector<float>* naive, std::vector<float>& output, PathResult& result) {
  result.n = data.n;
  result.path = name.path;
  result.kernel = name.kernel;
  const Problem problem = lab_problem(data.n, data.n, options.seed);
  Result<Plan> planned = plan(problem, options.facts, {.kernel = name.kernel, .threads = options.threads});
  if (!planned.ok()) {
    result.outcome = Outcome::refused;
    result.reason = planned.status().message();
    return {};
  }
  const Plan& p = planned.value();
  result.kernel = p.kernel;
  result.computed_as = p.computed_as;
  result.launches = p.launches;
  result.repeat = fmt::format("runmax check {} --kernel {} --device {}", to_text(problem), p.kernel,
                              device_kind_name(p.device.kind));
  const std::int64_t needed = static_cast<std::int64_t>(p.workspace_bytes + 4 * data.bytes());
  Result<DeviceFacts> now = device_facts(p.device);
  if (!now.ok()) return now.status();
  if (!lesson::fits_in_memory(static_cast<double>(needed), static_cast<double>(now.value().free_bytes))) {
    result.outcome = Outcome::skipped;
    result.reason = fmt::format("needs {}, more than 80 % of the {} that are free", bytes_text(needed),
                                bytes_text(now.value().free_bytes));
    return {};
  }
  if (const std::optional<double> seconds = too_many_seconds(p, data, options, bench)) {
    result.outcome = Outcome::skipped;
    result.reason = fmt::format("one run would take about {:.0f} s, more than --time-limit {:.0f}", *seconds,
                                options.time_limit_s);
    return {};
  }

  if (data.reference.empty()) {
    options.progress(fmt::format("N = {}: reference in double on {} threads", data.n, options.threads));
    add_reference(data, options.threads);
  }
  MemoryLedger ledger;
  const SystemMemoryWatch watch(p.device);
  Result<Operands> operands = make_operands(p, data, ledger);
  if (!operands.ok()) return operands.status();
  const Bench::Work work = work_of(p, operands.value(), bench.stream());
  output.resize(data.q.size());
  const auto read_output = [&](std::vector<float>& values) {
    if (Status status = bench.finish(); !status.ok()) return status;
    return operands.value().o.to_host(values.data(), data.bytes());
  };
  options.progress(fmt::format("N = {}: {} runs and is gated", data.n, result.kernel));
  if (Status status = work(); !status.ok()) return status;
  if (Status status = read_output(output); !status.ok()) return status;
  judge(data, output, naive, result);

  for (const CacheState cache : {CacheState::warm, CacheState::cold}) {
    options.progress(fmt::format("N = {}: {} is timed, {}", data.n, result.kernel, cache_name(cache)));
    Result<Summary> ms = bench.time(work, cache, operands.value().all(), {});
    if (!ms.ok()) return ms.status();
    (cache == CacheState::warm ? result.warm : result.cold) = ms.value();
  }
  result.peak_bytes = static_cast<std::int64_t>(ledger.peak());
  result.peak_bytes_system = watch.rise();

  // What was timed must be what was gated: the last run gives the bits of the first.
  std::vector<float> last(output.size());
  if (Status status = read_output(last); !status.ok()) return status;
  if (result.outcome == Outcome::ok && std::memcmp(last.data(), output.data(), data.bytes()) != 0) {
    result.outcome = Outcome::failed;
    result.reason = "the output of the last timed run has other bits than that of the first";
  }
  // Tensor cores have another peak; only paths that say they multiply and add in FP32 are held against this
  // one.
  if (options.fma_rate && result.computed_as.rfind("f32", 0) == 0) {
    Result<double> share = measured_share(result, *options.fma_rate, bench);
    if (!share.ok()) return share.status();
    result.fma_share = share.value();
  }
  return {};
}

}  // namespace

Problem lab_problem(std::int64_t query_len, std::int64_t kv_len, std::uint64_t seed) {
  Problem problem;
  problem.query_len = query_len;
  problem.kv_len = kv_len;
  problem.head_dim = problem.value_dim = head_dim;
  problem.input = InputKind::loud;
  problem.seed = seed;
  return problem;
}

Result<std::vector<PathResult>> study_length(std::int64_t n, const StudyOptions& options, Bench& bench) {
  Data data = draw_data(n, options.seed);
  std::vector<PathResult> results;
  std::vector<float> naive, output;
  for (const PathName& name : paths(options.facts.device.kind)) {
    PathResult result;
    if (Status status =
            study_path(name, data, options, bench, naive.empty() ? nullptr : &naive, output, result);
        !status.ok())
      return status;
    if (result.path == "naive" && result.ran()) naive = output;
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace runmax::lab
