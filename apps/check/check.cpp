#include "check/check.hpp"

#include "check/reference_options.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "check/double_judge.hpp"
#include "check/forms.hpp"
#include "gate/gate.hpp"
#include "gate/rounded.hpp"
#include "problem/format16.hpp"
#include "reference/reference.hpp"
#include "registry/registry.hpp"

namespace runmax::check {
namespace {

using reference::Row;

// Multiply-adds that the reference may spend on one check unless told otherwise: a few seconds of two cores.
constexpr double reference_budget = 4e9;
constexpr std::int64_t fewest_sampled_rows = 64;

reference::Keys keys_of(const Problem& p, std::int64_t i) {
  const KeyRange keys = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
  return {keys.begin, keys.end};
}

const PlanOptions plain_path{.kernel = "cpu_lesson_online", .threads = 1};

// One row of a head as a problem of its own on the keys it sees: the plain FP32 path treats rows one by one.
Problem ieee_row(const Problem& p) {
  Problem one = p;
  one.batch = one.query_heads = one.kv_heads = one.query_len = 1;
  one.causal = Causal::none;
  one.window = {};
  one.arithmetic = Arithmetic::ieee;
  one.softmax_scale = effective_scale(p);
  return one;
}

// The given rows of one head by the plain FP32 path, (rows, value_dim) packed; empty if a run failed.
std::vector<float> ieee_rows(const Problem& p, const DeviceFacts& cpu, const float* q, const float* k,
                             const float* v, const std::vector<std::int64_t>& rows, int threads) {
  const Problem one = ieee_row(p);
  std::vector<float> out(rows.size() * static_cast<std::size_t>(p.value_dim), 0.0f);
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  const auto work = [&] {
    for (std::size_t r = next++; r < rows.size(); r = next++) {
      const reference::Keys keys = keys_of(p, rows[r]);
      Problem problem = one;
      problem.kv_len = keys.end - keys.begin;
      if (problem.kv_len == 0) continue;
      const auto view = [](const float* data, std::int64_t length, std::int64_t dim) {
        return packed_view(data, DType::f32, {1, 1, length, dim}, Layout::bhsd);
      };
      Tensors tensors;
      tensors.q = view(q + rows[r] * p.head_dim, 1, p.head_dim);
      tensors.k = view(k + keys.begin * p.head_dim, problem.kv_len, p.head_dim);
      tensors.v = view(v + keys.begin * p.value_dim, problem.kv_len, p.value_dim);
      tensors.o = view(out.data() + r * static_cast<std::size_t>(p.value_dim), 1, p.value_dim);
      const Result<Plan> planned = plan(problem, cpu, plain_path);
      if (!planned.ok() || !run(planned.value(), tensors, {}, nullptr).ok()) failed = true;
    }
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  if (failed) out.clear();
  return out;
}

// All gates of one kernel's answer.
struct Gates {
  gate::FinitenessGate finiteness;
  gate::LessonGate lesson;
  gate::HostileGate hostile;
  gate::SecondBar second;
  gate::LseGate lse;
  std::optional<gate::RoundedGate> rounded;  // in the place of lesson, hostile and second for 16-bit types
  Data data;
  bool with_lesson, with_second, with_lse, baseline;
  double largest_score = 0;  // largest S of the rows compared
  double largest_value = 0;  // largest |v| of the problem

  Gates(const Problem& p, const Answer& answer, bool have_ieee, Data data_of)
      : lesson(p.kv_len),
        hostile(p.kv_len, sum_of(answer)),
        lse(p.kv_len, sum_of(answer)),
        data(data_of),
        with_lesson(data == Data::drawn && lesson_gate_applies(p.input)),
        with_second(have_ieee && !is_baseline(answer)),
        with_lse(answer.standing == Standing::ours),
        baseline(is_baseline(answer)) {
    const auto weights = answer.rounds_weights ? gate::Weights::rounded : gate::Weights::exact;
    if (p.dtype == DType::f16) rounded.emplace(p.kv_len, gate::rounding_f16, sum_of(answer), weights);
    if (p.dtype == DType::bf16) rounded.emplace(p.kv_len, gate::rounding_bf16, sum_of(answer), weights);
  }

  static gate::SequentialSum sum_of(const Answer& answer) {
    return is_baseline(answer) ? gate::SequentialSum::allowed : gate::SequentialSum::not_allowed;
  }

  // Baselines sum in sequence, as the lesson does, and are themselves plain FP32 paths.
  static bool is_baseline(const Answer& answer) {
    if (answer.standing == Standing::foreign) return true;
    const KernelEntry* entry = find_kernel(answer.plan.kernel);
    return entry != nullptr && entry->choice == Choice::by_name;
  }

  std::string reason_without_second() const {
    if (baseline) return "is for kernels that plan chooses by itself";
    if (!with_second) return "the plain FP32 path does not serve this problem";
    return "needs " + std::to_string(gate::second_bar_fewest_rows) +
           " rows where the plain FP32 path is finite, got " + std::to_string(second.rows());
  }

  // Why nothing is promised for these numbers, or nothing (docs/numerics.md, "range").
  std::string out_of_range(const Problem& p) const {
    const auto beyond = [](double size) { return std::isfinite(size) && size >= 0x1p127; };
    const double sum = largest_value * static_cast<double>(p.kv_len);
    if (beyond(largest_score))
      return "|scale| * sum |q_d * k_d| reaches 2^" + std::to_string(std::ilogb(largest_score)) +
             ": from 2^127 on a score does not fit FP32, and nothing is promised";
    if (beyond(sum))
      return "kv_len * max |v| reaches 2^" + std::to_string(std::ilogb(sum)) +
             ": from 2^127 on an undivided output may not fit FP32, and nothing is promised";
    return "";
  }

  void report(const Problem& p, KernelReport& kernel) const {
    kernel.gates.clear();
    kernel.not_applied.clear();
    if (p.value_dim > 0 && rounded) {
      const std::string type(dtype_name(p.dtype));
      kernel.gates.push_back({"rounding gate", rounded->rule(), rounded->verdict()});
      kernel.not_applied.push_back("lesson gate, hostile gate, second bar: are for f32, not " + type);
    } else if (p.value_dim > 0) {
      kernel.gates.push_back({"finiteness gate", "", finiteness.verdict()});
      if (with_lesson) {
        kernel.gates.push_back({"lesson gate", lesson.rule(), lesson.verdict()});
      } else {
        kernel.not_applied.push_back(data == Data::users ? "lesson gate: is meant for drawn data"
                                                         : "lesson gate: is not meant for in=" +
                                                               std::string(input_kind_name(p.input)));
      }
      kernel.gates.push_back({"hostile gate", hostile.rule(), hostile.verdict()});
      if (with_second && second.comparable()) {
        kernel.gates.push_back({"second bar", second.rule(), second.verdict()});
      } else {
        kernel.not_applied.push_back("second bar: " + reason_without_second());
      }
    }
    if (with_lse) kernel.gates.push_back({"lse gate", lse.rule(), lse.verdict()});
    if (!kernel.accepted()) kernel.hint = out_of_range(p);
  }
};

std::string device_text(const Device& device) {
  if (device.kind == DeviceKind::cpu) return "cpu";
  return device.index == 0 ? "cuda" : "cuda:" + std::to_string(device.index);
}

}  // namespace

std::int64_t rows_to_compare(const Problem& p, std::int64_t asked) {
  if (asked > 0) return std::min(asked, p.query_len);
  const double row_cost = static_cast<double>(p.batch) * static_cast<double>(p.query_heads) *
                          static_cast<double>(p.kv_len) * static_cast<double>(p.head_dim + p.value_dim);
  // The reference of f64 computes in long double, which has no vectors.
  const double budget = p.dtype == DType::f64 ? reference_budget / 16 : reference_budget;
  const double rows = budget / std::max(row_cost, 1.0);
  if (rows >= static_cast<double>(p.query_len)) return p.query_len;
  return std::min(p.query_len, std::max(fewest_sampled_rows, static_cast<std::int64_t>(rows)));
}

int worker_count(const DeviceFacts& facts, std::int32_t threads) {
  if (threads > 0) return threads;
  if (facts.device.kind == DeviceKind::cpu) return facts.threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

bool KernelReport::accepted() const {
  return !refused() && trespass.empty() && !gates.empty() &&
         std::all_of(gates.begin(), gates.end(), [](const GateReport& g) { return g.verdict.passed; });
}

bool CheckReport::accepted() const {
  std::size_t ran = 0;
  for (const KernelReport& kernel : kernels) {
    if (kernel.refused()) continue;
    if (!kernel.accepted()) return false;
    ++ran;
  }
  return ran > 0;
}

bool lesson_gate_applies(InputKind kind) {
  switch (kind) {
    case InputKind::normal:
    case InputKind::loud:
    case InputKind::onesign:
    case InputKind::equal:
    case InputKind::rising:
    case InputKind::falling:
      return true;
    case InputKind::wide:
    case InputKind::needle:
    case InputKind::hot:
      return false;
  }
  return false;
}

std::string repeat_command(const Problem& problem, const DeviceFacts& facts, const CheckOptions& options,
                           const std::string& kernel) {
  std::string command = "runmax check " + to_text(problem) + " --device " + device_text(facts.device);
  if (!kernel.empty()) command += " --kernel " + kernel;
  if (options.threads > 0) command += " --threads " + std::to_string(options.threads);
  if (options.num_splits > 0) command += " --num-splits " + std::to_string(options.num_splits);
  if (options.rows > 0) command += " --rows " + std::to_string(options.rows);
  return command;
}

void judge_answers(const Problem& p, const inputs::HostInputs& drawn, const std::vector<std::int64_t>& rows,
                   int threads, const std::vector<Answer>& answers, std::vector<KernelReport>& reports,
                   const std::function<void(const std::string&)>& progress, Data data) {
  if (p.dtype == DType::f64)
    return judge_double(p, double_inputs(drawn), rows, threads, answers, reports, progress);
  const bool need_ieee = p.value_dim > 0 && std::any_of(answers.begin(), answers.end(), [](const Answer& a) {
                           return !Gates::is_baseline(a);
                         });
  const Result<DeviceFacts> cpu = device_facts({DeviceKind::cpu, 0});
  const bool have_ieee =
      need_ieee && cpu.ok() &&
      plan(ieee_row(element_problem(p, {p.query_len, p.kv_len})), cpu.value(), plain_path).ok();
  std::vector<std::unique_ptr<Gates>> gates;
  for (const Answer& answer : answers) gates.push_back(std::make_unique<Gates>(p, answer, have_ieee, data));
  const std::int64_t group = p.kv_heads == 0 ? 1 : p.query_heads / p.kv_heads;
  const std::vector<SequencePlace> places = places_of(p, drawn);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t h = 0; h < p.query_heads; ++h) {
      const SequencePlace& place = places[static_cast<std::size_t>(b)];
      const Problem own = element_problem(p, place.lengths);
      // Elements with lengths of their own are sampled each for itself.
      const std::vector<std::int64_t> own_rows =
          p.varlen.empty() ? rows
                           : reference::sampled_rows(own.query_len, static_cast<std::int64_t>(rows.size()));
      if (progress)
        progress("reference: head " + std::to_string(b * p.query_heads + h + 1) + " of " +
                 std::to_string(p.batch * p.query_heads));
      const std::int64_t kv_head = b * p.kv_heads + h / group;
      const float* q = drawn.q.data() + (b * p.query_heads + h) * p.query_len * p.head_dim;
      const float* k = drawn.k.data() + kv_head * p.kv_len * p.head_dim;
      const float* v = drawn.v.data() + kv_head * p.kv_len * p.value_dim;
      std::vector<float> ieee;
      if (have_ieee) ieee = ieee_rows(own, cpu.value(), q, k, v, own_rows, threads);
      const reference::Head<float> head{{q, p.head_dim, 1}, {k, p.head_dim, 1}, {v, p.value_dim, 1},
                                        own.query_len,      own.kv_len,         p.head_dim,
                                        p.value_dim,        effective_scale(p)};
      const reference::ScoreOptions options =
          reference_options(p, drawn.options, b, h, diagonal_offset(own.causal, own.query_len, own.kv_len));
      std::size_t r = 0;
      reference::for_each_reference_row(
          head, own_rows, [&](std::int64_t i) { return keys_of(own, i); }, threads,
          [&](std::int64_t i, const Row<double>& want) {
            for (std::size_t a = 0; a < answers.size(); ++a) {
              const HostTensor& o = answers[a].o;
              const float* got = o.storage.data() + (p.value_dim > 0 ? form_index(p, o, place, b, h, i) : 0);
              if (gates[a]->rounded) gates[a]->rounded->add_row(b, h, i, want, got, o.strides[3]);
              gates[a]->finiteness.add_row(b, h, i, want, got, o.strides[3]);
              gates[a]->lesson.add_row(b, h, i, want, got, o.strides[3]);
              gates[a]->hostile.add_row(b, h, i, want, got, o.strides[3]);
              if (gates[a]->with_second && !ieee.empty())
                gates[a]->second.add_row(b, h, i, want, got, o.strides[3],
                                         ieee.data() + r * static_cast<std::size_t>(p.value_dim), 1);
              const HostTensor& lse = answers[a].lse;
              if (gates[a]->with_lse)
                gates[a]->lse.add(b, h, i, want,
                                  lse.storage[static_cast<std::size_t>(form_index(p, lse, place, b, h, i))]);
              gates[a]->largest_score = std::max(gates[a]->largest_score, want.score_magnitude);
            }
            ++r;
          },
          options);
    }
  double largest_value = 0;
  for (const float value : drawn.v)
    largest_value = std::max(largest_value, std::abs(static_cast<double>(value)));
  for (std::size_t a = 0; a < gates.size(); ++a) {
    gates[a]->largest_value = largest_value;
    gates[a]->report(p, reports[a]);
  }
}

std::string hint_of(const Problem& p, const inputs::HostInputs& drawn, const std::vector<std::int64_t>& rows,
                    int threads, const Answer& answer) {
  struct Mistake {
    const char* hint;
    Problem problem;
  };
  std::vector<Mistake> mistakes;
  const auto consider = [&](const char* hint, auto change) {
    Mistake mistake{hint, p};
    change(mistake.problem);
    if (!(mistake.problem == p)) mistakes.push_back(mistake);
  };
  if (p.causal == Causal::bottom_right && p.query_len != p.kv_len)
    consider("matches top-left alignment", [](Problem& m) { m.causal = Causal::top_left; });
  if (p.causal == Causal::top_left && p.query_len != p.kv_len)
    consider("matches bottom-right alignment", [](Problem& m) { m.causal = Causal::bottom_right; });
  consider("matches attention without the causal mask", [](Problem& m) { m.causal = Causal::none; });
  consider("matches attention without the window", [](Problem& m) { m.window = {}; });
  consider("matches attention without the mask", [](Problem& m) { m.mask = false; });
  consider("matches attention without the bias", [](Problem& m) { m.bias = false; });
  consider("matches attention without ALiBi", [](Problem& m) { m.alibi = false; });
  consider("matches attention without the sink", [](Problem& m) { m.sink = false; });
  consider("matches attention without dropout", [](Problem& m) { m.dropout = 0; });
  consider("matches attention without the softcap", [](Problem& m) { m.softcap = 0; });
  consider("matches a softmax scale of 1", [](Problem& m) { m.softmax_scale = 1.0; });
  for (const Mistake& mistake : mistakes) {
    std::vector<KernelReport> trial(1);
    judge_answers(mistake.problem, drawn, rows, threads, {answer}, trial, {});
    // O alone decides: a kernel may be right in O and wrong in its LSE besides.
    const bool matches = std::all_of(trial[0].gates.begin(), trial[0].gates.end(), [](const GateReport& g) {
      return g.name == "lse gate" || g.name == "second bar" || g.verdict.passed;
    });
    if (matches) return mistake.hint;
  }
  return "";
}

void round_to(DType dtype, std::vector<float>& values) {
  if (dtype != DType::f16 && dtype != DType::bf16) return;
  const Format16 format = dtype == DType::f16 ? format_f16 : format_bf16;
  for (float& value : values) value = decode16(format, encode16(format, static_cast<double>(value)));
}

void round_to(DType dtype, inputs::HostInputs& drawn) {
  for (std::vector<float>* values : {&drawn.q, &drawn.k, &drawn.v}) round_to(dtype, *values);
}

Result<CheckReport> check_problem(const Problem& problem, const DeviceFacts& facts,
                                  const CheckOptions& options) {
  if (Status status = validate(problem); !status.ok()) return status;
  if (options.rows < 0)
    return Status(StatusCode::invalid_argument,
                  "rows: must be at least 0 (0 is automatic), got " + std::to_string(options.rows));
  CheckReport report;
  report.problem = problem;
  report.facts = facts;

  // Plans first: what nothing serves is refused before any input is drawn.
  std::vector<PlanOptions> to_run;
  if (options.kernel == "all") {
    for (const KernelEntry& kernel : kernels()) {
      if (kernel.device != facts.device.kind) continue;
      const PlanOptions plan_options{std::string(kernel.name), options.threads, options.num_splits};
      KernelReport line;
      line.kernel = kernel.name;
      if (auto reason = refusal(kernel, problem, facts, plan_options))
        line.refusal = *reason;
      else
        to_run.push_back(plan_options);
      report.kernels.push_back(line);
    }
    if (to_run.empty()) {
      std::string reasons;
      for (const KernelReport& line : report.kernels)
        reasons += (reasons.empty() ? "" : "; ") + line.kernel + ": " + line.refusal;
      return Status(StatusCode::unsupported,
                    "no kernel on " + std::string(device_kind_name(facts.device.kind)) + " serves " +
                        to_text(problem) + (reasons.empty() ? "" : ": " + reasons));
    }
  } else {
    Result<Plan> planned = plan(problem, facts, {options.kernel, options.threads, options.num_splits});
    if (!planned.ok()) return planned.status();
    to_run.push_back({planned.value().kernel, options.threads, options.num_splits});
    KernelReport line;
    line.kernel = planned.value().kernel;
    report.kernels.push_back(line);
  }
  if (problem.batch == 0 || problem.query_heads == 0 || problem.query_len == 0)
    return Status(StatusCode::invalid_argument,
                  "check: " + to_text(problem) + " has no query row, so there is nothing to compare");

  if (options.progress) options.progress("drawing inputs");
  inputs::HostInputs drawn = inputs::draw(problem);
  round_to(problem.dtype, drawn);
  const HostOperands operands = form_operands(problem, drawn);

  std::vector<Answer> answers;
  std::vector<KernelReport> ran;
  for (const PlanOptions& plan_options : to_run) {
    if (options.progress) options.progress("running " + plan_options.kernel);
    Result<Answer> answer =
        run_kernel(problem, facts, plan_options, operands, form_o(problem), form_lse(problem));
    if (!answer.ok()) return answer.status();
    KernelReport line;
    line.kernel = plan_options.kernel;
    line.computed_as = answer.value().plan.computed_as;
    line.trespass = answer.value().trespass;
    line.repeat = repeat_command(problem, facts, options, plan_options.kernel);
    ran.push_back(line);
    answers.push_back(std::move(answer).value());
  }
  const std::vector<std::int64_t> rows =
      reference::sampled_rows(problem.query_len, rows_to_compare(problem, options.rows));
  report.rows_compared = static_cast<std::int64_t>(rows.size());
  const int threads = worker_count(facts, options.threads);
  judge_answers(problem, drawn, rows, threads, answers, ran, options.progress);
  for (std::size_t a = 0; a < ran.size(); ++a)
    if (!ran[a].accepted() && ran[a].trespass.empty() && ran[a].hint.empty())
      ran[a].hint = hint_of(problem, drawn, rows, threads, answers[a]);
  for (const KernelReport& line : ran)
    *std::find_if(report.kernels.begin(), report.kernels.end(),
                  [&](const KernelReport& k_line) { return k_line.kernel == line.kernel; }) = line;
  return report;
}

std::string describe(const KernelReport& kernel) {
  if (kernel.refused()) return kernel.kernel + ": does not serve this problem, " + kernel.refusal + "\n";
  std::string text = kernel.kernel + " (" + kernel.computed_as +
                     "): " + (kernel.accepted() ? "accepted" : "REJECTED") + "\n";
  for (const GateReport& g : kernel.gates)
    text += "  " + gate::describe(g.verdict, g.name, g.rule, kernel.repeat);
  for (const std::string& gate : kernel.not_applied) text += "  not applied: " + gate + "\n";
  if (!kernel.hint.empty()) text += "  hint: " + kernel.hint + "\n";
  return text + (kernel.trespass.empty()
                     ? "  memory: guard bytes intact, inputs unchanged\n"
                     : "  memory: FAILED, " + kernel.trespass + "\n  repeat: " + kernel.repeat + "\n");
}

std::string describe(const CheckReport& report) {
  const Problem& p = report.problem;
  std::string text = to_text(p) + ": " + std::to_string(report.rows_compared) + " of " +
                     std::to_string(p.query_len) + " query rows of each head compared" +
                     (report.sampled() ? " (sampled; --rows N for more)" : "") +
                     " with the double-precision reference\n";
  for (const KernelReport& kernel : report.kernels) text += describe(kernel);
  return text;
}

}  // namespace runmax::check
