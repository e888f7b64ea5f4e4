#include "check/gradient_check.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "check/forms.hpp"
#include "check/reference_options.hpp"
#include "gate/gradient_gate.hpp"
#include "inputs/draw_dout.hpp"
#include "reference/gradient_reference.hpp"
#include "registry/registry.hpp"

namespace runmax::check {
namespace {

// Multiply-adds that the reference may spend on whole gradients: a few seconds of two cores.
constexpr double reference_budget = 4e9;
constexpr std::int64_t fewest_samples = 64;

constexpr std::size_t guard_bytes = 256;
constexpr unsigned char guard_value = 0xA5;

// Host memory between guards, at a multiple of 64 bytes.
class Guarded {
 public:
  // A copy of an input, or memory full of 0xFF, which as f32 is NaN.
  explicit Guarded(const std::vector<unsigned char>& data) : Guarded(data.size()) {
    if (!data.empty()) std::memcpy(payload(), data.data(), bytes_);
  }
  explicit Guarded(std::size_t bytes) : bytes_(bytes), memory_(bytes + 3 * guard_bytes, guard_value) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    offset_ = guard_bytes + (guard_bytes - address % guard_bytes) % guard_bytes;
    if (bytes > 0) std::memset(payload(), 0xFF, bytes);
  }
  unsigned char* payload() { return memory_.data() + offset_; }
  const unsigned char* payload() const { return memory_.data() + offset_; }
  std::size_t bytes() const { return bytes_; }

  void note_guards(const char* name, std::string& trespass) const {
    for (std::size_t n = 0; n < memory_.size() && trespass.empty(); ++n) {
      if ((n >= offset_ && n < offset_ + bytes_) || memory_[n] == guard_value) continue;
      trespass = std::string(name) + ": a byte was written " +
                 (n < offset_ ? std::to_string(offset_ - n) + " before the start"
                              : std::to_string(n - offset_ - bytes_) + " past the end") +
                 " of the buffer";
    }
  }
  void note_input(const char* name, const HostTensor& tensor, std::string& trespass) const {
    if (trespass.empty() && bytes_ > 0 && std::memcmp(payload(), encode(tensor).data(), bytes_) != 0)
      trespass = std::string(name) + ": the input was changed";
  }
  // The output; what lies between its elements must still be poison.
  HostTensor take(const char* name, const HostTensor& like, std::string& trespass) const {
    HostTensor output = like;
    if (bytes_ > 0) std::memcpy(output.storage.data(), payload(), bytes_);
    std::vector<bool> reached(output.storage.size(), false);
    for (std::int64_t b = 0; b < like.shape[0]; ++b)
      for (std::int64_t h = 0; h < like.shape[1]; ++h)
        for (std::int64_t i = 0; i < like.shape[2]; ++i)
          for (std::int64_t c = 0; c < like.shape[3]; ++c)
            reached[static_cast<std::size_t>(like.index(b, h, i, c))] = true;
    for (std::size_t n = 0; n < reached.size() && trespass.empty(); ++n) {
      const unsigned char* at = payload() + n * sizeof(float);
      if (!reached[n] && (at[0] & at[1] & at[2] & at[3]) != 0xFF)
        trespass = std::string(name) + ": the padding between its elements was written, at element " +
                   std::to_string(n) + " of its memory";
    }
    return output;
  }

 private:
  std::size_t bytes_, offset_ = 0;
  std::vector<unsigned char> memory_;
};

std::int64_t group_of(const Problem& p) { return p.kv_heads == 0 ? 0 : p.query_heads / p.kv_heads; }

std::int64_t longest_sum(const Problem& p) { return std::max(p.kv_len, group_of(p) * p.query_len); }

// What was added up to get an element of dBias or dSink.
struct SharedSum {
  double want = 0, magnitude = 0, weighed = 0;
  void add(double term, double size, double score_magnitude) {
    want += term;
    magnitude += size;
    weighed += size * score_magnitude;
  }
};

// The reference of dBias and dSink: sums over heads and rows.
struct SharedSums {
  std::vector<SharedSum> bias, sink;
};

struct Gates {
  gate::GradientGate dq, dk, dv, dbias, dsink;
  explicit Gates(const Problem& p)
      : dq("dq", longest_sum(p)),
        dk("dk", longest_sum(p)),
        dv("dv", longest_sum(p)),
        dbias("dbias", std::max(longest_sum(p), p.batch * p.query_heads * p.query_len)),
        dsink("dsink", std::max(longest_sum(p), p.batch * p.query_len)) {}
};

// One KV head of the reference: the rows of its query heads, head after head, and its keys.
struct HeadReference {
  std::vector<reference::RowGradient<double>> rows;
  reference::KeyGradients<double> keys;
};

// Where the pieces of a head lie in packed arrays.
struct HeadPlace {
  const Problem& p;
  std::int64_t batch, kv_head;

  std::int64_t query_head(std::int64_t g) const { return kv_head * group_of(p) + g; }
  std::int64_t query_row(std::int64_t g) const {
    return (batch * p.query_heads + query_head(g)) * p.query_len;
  }
  std::int64_t key_row() const { return (batch * p.kv_heads + kv_head) * p.kv_len; }
  reference::Head<float> head(const inputs::HostInputs& in, std::int64_t g) const {
    return {{in.q.data() + query_row(g) * p.head_dim, p.head_dim, 1},
            {in.k.data() + key_row() * p.head_dim, p.head_dim, 1},
            {in.v.data() + key_row() * p.value_dim, p.value_dim, 1},
            p.query_len,
            p.kv_len,
            p.head_dim,
            p.value_dim,
            effective_scale(p)};
  }
  reference::Keys keys(std::int64_t i) const {
    const KeyRange range = visible_keys(p.causal, p.window, p.query_len, p.kv_len, i);
    return {range.begin, range.end};
  }
};

HeadReference reference_of(const HeadPlace& place, const inputs::HostInputs& in,
                           const std::vector<float>& dout, const HostTensor& o, const HostTensor& lse,
                           bool whole, const std::vector<std::int64_t>& rows,
                           const std::vector<std::int64_t>& keys) {
  const Problem& p = place.p;
  HeadReference result{{}, {static_cast<std::int64_t>(keys.size()), p.head_dim, p.value_dim}};
  for (std::int64_t g = 0; g < group_of(p); ++g) {
    const reference::Head<float> head = place.head(in, g);
    reference::GradientReference<double> reference(head);
    const reference::ScoreOptions options = reference_options(
        p, in.options, place.batch, place.query_head(g), diagonal_offset(p.causal, p.query_len, p.kv_len));
    if (whole && p.bias) reference.keep_score_gradients();
    const reference::Matrix<float> dout_rows{dout.data() + place.query_row(g) * p.value_dim, p.value_dim, 1};
    for (const std::int64_t i : rows) {
      result.rows.emplace_back();
      reference.row(head, dout_rows, i, place.keys(i), result.rows.back(), whole ? &result.keys : nullptr,
                    options);
    }
    if (whole) continue;
    const std::int64_t h = place.query_head(g);
    const reference::Matrix<float> o_rows{
        o.storage.data() + (p.value_dim > 0 ? o.index(place.batch, h, 0, 0) : 0), o.strides[2], o.strides[3]};
    for (std::int64_t i = 0; i < p.query_len; ++i)
      reference.saved_row(head, dout_rows, o_rows, i, place.keys(i),
                          static_cast<double>(lse.at(place.batch, h, i)), keys, result.keys, options);
  }
  return result;
}

void add_head(const HeadPlace& place, const HeadReference& want, const std::vector<std::int64_t>& rows,
              const std::vector<std::int64_t>& keys, const GradientAnswer& got, Gates& gates) {
  const Problem& p = place.p;
  const auto element = [](const HostTensor& tensor, std::int64_t b, std::int64_t h, std::int64_t i) {
    return tensor.storage.data() + (tensor.shape[3] > 0 ? tensor.index(b, h, i, 0) : 0);
  };
  for (std::int64_t g = 0; g < group_of(p); ++g)
    for (std::size_t r = 0; r < rows.size(); ++r)
      gates.dq.add_row(place.batch, place.query_head(g), rows[r],
                       want.rows[static_cast<std::size_t>(g) * rows.size() + r],
                       element(got.dq, place.batch, place.query_head(g), rows[r]), got.dq.strides[3]);
  const auto head_dim = static_cast<std::size_t>(p.head_dim),
             value_dim = static_cast<std::size_t>(p.value_dim);
  for (std::size_t n = 0; n < keys.size(); ++n) {
    gates.dk.add_key(place.batch, place.kv_head, keys[n], want.keys.dk, want.keys.dk_magnitude,
                     want.keys.dk_score_magnitude, n * head_dim, head_dim,
                     element(got.dk, place.batch, place.kv_head, keys[n]), got.dk.strides[3]);
    gates.dv.add_key(place.batch, place.kv_head, keys[n], want.keys.dv, want.keys.dv_magnitude,
                     want.keys.dv_score_magnitude, n * value_dim, value_dim,
                     element(got.dv, place.batch, place.kv_head, keys[n]), got.dv.strides[3]);
  }
}

// What a head gives to dBias and dSink.
void add_shared(const HeadPlace& place, const HeadReference& want, const inputs::HostOptions& options,
                SharedSums& sums) {
  const Problem& p = place.p;
  for (std::int64_t g = 0; g < group_of(p); ++g) {
    const std::int64_t h = place.query_head(g);
    const OptionRows bias(options.bias_shape, place.batch, h);
    for (std::int64_t i = 0; i < p.query_len; ++i) {
      const auto& row = want.rows[static_cast<std::size_t>(g * p.query_len + i)];
      for (std::int64_t j = 0; j < p.kv_len && p.bias; ++j)
        sums.bias[bias.place(i, j)].add(row.score_gradient[static_cast<std::size_t>(j)],
                                        row.score_gradient_magnitude[static_cast<std::size_t>(j)],
                                        row.score_magnitude);
      if (p.sink)
        sums.sink[static_cast<std::size_t>(h)].add(row.sink, row.sink_magnitude, row.score_magnitude);
    }
  }
}

void gate_shared(const std::vector<SharedSum>& sums, const std::array<std::int64_t, 4>& shape,
                 const HostTensor& got, gate::GradientGate& gate) {
  std::size_t n = 0;
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t i = 0; i < shape[2]; ++i)
        for (std::int64_t j = 0; j < shape[3]; ++j, ++n)
          gate.add_element(b, h, i, j, sums[n].want, sums[n].magnitude, sums[n].weighed, got.storage[n]);
}

}  // namespace

bool GradientReport::accepted() const {
  bool any = false;
  for (const KernelReport& kernel : kernels) {
    if (kernel.refused()) continue;
    any = true;
    if (!kernel.accepted()) return false;
  }
  return any;
}

Result<GradientAnswer> run_backward_trapped(const Plan& plan, const HostOperands& in, const HostTensor& o,
                                            const HostTensor& lse, const HostTensor& dout,
                                            const HostTensor& dq, const HostTensor& dk,
                                            const HostTensor& dv) {
  const Device device;
  struct Operand {
    const char* name;
    const HostTensor& tensor;
    Guarded memory;
    TensorView* view;
  };
  const Problem& p = plan.problem;
  const HostTensor dbias = p.bias ? packed_tensor(in.bias.shape) : HostTensor{};
  const HostTensor dsink = p.sink ? packed_tensor(in.sink.shape) : HostTensor{};
  Tensors tensors;
  Gradients gradients;
  std::vector<Operand> inputs, outputs;
  const auto input = [&](const char* name, const HostTensor& tensor, TensorView& view, bool used = true) {
    if (used) inputs.push_back({name, tensor, Guarded(encode(tensor)), &view});
  };
  const auto output = [&](const char* name, const HostTensor& tensor, TensorView& view, bool used = true) {
    if (used) outputs.push_back({name, tensor, Guarded(tensor.bytes()), &view});
  };
  input("q", in.q, tensors.q);
  input("k", in.k, tensors.k);
  input("v", in.v, tensors.v);
  input("o", o, tensors.o);
  input("lse", lse, tensors.lse);
  input("dout", dout, gradients.dout);
  input("mask", in.mask, tensors.mask, p.mask);
  input("bias", in.bias, tensors.bias, p.bias);
  input("alibi_slopes", in.alibi_slopes, tensors.alibi_slopes, p.alibi);
  input("sink", in.sink, tensors.sink, p.sink);
  output("dq", dq, gradients.dq);
  output("dk", dk, gradients.dk);
  output("dv", dv, gradients.dv);
  output("dbias", dbias, gradients.dbias, p.bias);
  output("dsink", dsink, gradients.dsink, p.sink);
  tensors.dropout = in.dropout;
  for (std::vector<Operand>* operands : {&inputs, &outputs})
    for (Operand& operand : *operands) *operand.view = operand.tensor.view(operand.memory.payload(), device);
  Guarded workspace(plan.workspace_bytes);
  if (Status status =
          run_backward(plan, tensors, gradients, {workspace.payload(), workspace.bytes()}, nullptr);
      !status.ok())
    return status;

  GradientAnswer answer;
  answer.plan = plan;
  for (const Operand& operand : inputs) {
    operand.memory.note_guards(operand.name, answer.trespass);
    operand.memory.note_input(operand.name, operand.tensor, answer.trespass);
  }
  for (const Operand& operand : outputs) operand.memory.note_guards(operand.name, answer.trespass);
  workspace.note_guards("workspace", answer.trespass);
  for (const Operand& operand : outputs) {
    const std::string name = operand.name;
    HostTensor& to = name == "dq"      ? answer.dq
                     : name == "dk"    ? answer.dk
                     : name == "dv"    ? answer.dv
                     : name == "dbias" ? answer.dbias
                                       : answer.dsink;
    to = operand.memory.take(operand.name, operand.tensor, answer.trespass);
  }
  return answer;
}

Result<GradientAnswer> run_backward_trapped(const Plan& plan, const HostTensor& q, const HostTensor& k,
                                            const HostTensor& v, const HostTensor& o, const HostTensor& lse,
                                            const HostTensor& dout, const HostTensor& dq,
                                            const HostTensor& dk, const HostTensor& dv) {
  HostOperands in;
  in.q = q;
  in.k = k;
  in.v = v;
  return run_backward_trapped(plan, in, o, lse, dout, dq, dk, dv);
}

GradientCoverage gradient_coverage(const Problem& p, std::int64_t asked) {
  // A pair costs the five products and their sizes.
  const double pair = 4.0 * static_cast<double>(p.head_dim + p.value_dim) + 16;
  const double all = visible_pairs(p) * pair;
  if (asked == 0 && all <= reference_budget) return {true, p.query_len, p.kv_len};
  std::int64_t samples = asked;
  if (samples == 0) {
    const double one = static_cast<double>(p.batch) * static_cast<double>(p.query_heads) * pair *
                       static_cast<double>(p.query_len + p.kv_len);
    samples = std::max(fewest_samples, static_cast<std::int64_t>(reference_budget / one));
  }
  return {samples >= p.query_len && samples >= p.kv_len, std::min(samples, p.query_len),
          std::min(samples, p.kv_len)};
}

void judge_gradients(const Problem& p, const inputs::HostInputs& drawn, const std::vector<float>& dout,
                     const HostTensor& o, const HostTensor& lse, const GradientCoverage& coverage,
                     int threads, const std::vector<GradientAnswer>& answers,
                     std::vector<KernelReport>& reports,
                     const std::function<void(const std::string&)>& progress) {
  const std::vector<std::int64_t> rows = reference::sampled_rows(p.query_len, coverage.rows),
                                  keys = reference::sampled_rows(p.kv_len, coverage.keys);
  std::vector<Gates> gates(answers.size(), Gates(p));
  SharedSums shared;
  shared.bias.resize(drawn.options.bias.size());
  shared.sink.resize(drawn.options.sink.size());
  const std::int64_t heads = p.batch * p.kv_heads;
  // A few heads at a time, so that memory is that of a few.
  const std::int64_t together = std::max(threads, 1);
  for (std::int64_t first = 0; first < heads; first += together) {
    if (progress)
      progress("gradient reference: KV head " + std::to_string(first + 1) + " of " + std::to_string(heads));
    const std::int64_t count = std::min(together, heads - first);
    std::vector<HeadReference> wanted(static_cast<std::size_t>(count));
    std::atomic<std::int64_t> next{0};
    const auto place = [&](std::int64_t n) {
      return HeadPlace{p, (first + n) / p.kv_heads, (first + n) % p.kv_heads};
    };
    const auto work = [&] {
      for (std::int64_t n = next++; n < count; n = next++)
        wanted[static_cast<std::size_t>(n)] =
            reference_of(place(n), drawn, dout, o, lse, coverage.whole, rows, keys);
    };
    std::vector<std::thread> pool;
    for (std::int64_t t = 1; t < count; ++t) pool.emplace_back(work);
    work();
    for (std::thread& thread : pool) thread.join();
    for (std::int64_t n = 0; n < count && coverage.whole; ++n)
      add_shared(place(n), wanted[static_cast<std::size_t>(n)], drawn.options, shared);
    for (std::int64_t n = 0; n < count; ++n)
      for (std::size_t a = 0; a < answers.size(); ++a)
        add_head(place(n), wanted[static_cast<std::size_t>(n)], rows, keys, answers[a], gates[a]);
  }
  for (std::size_t a = 0; a < answers.size(); ++a) {
    reports[a].gates.clear();
    const auto report = [&](const gate::GradientGate& gate, bool has_elements, bool compared = true) {
      const std::string name = std::string(gate.tensor()) + " gate";
      if (has_elements && compared)
        reports[a].gates.push_back({name, gate.rule(), gate.verdict()});
      else
        reports[a].not_applied.push_back(
            name + (has_elements ? ": needs every row, and these are a sample" : ": it has no element"));
    };
    report(gates[a].dq, p.query_len > 0 && p.head_dim > 0);
    report(gates[a].dk, p.kv_len > 0 && p.head_dim > 0);
    report(gates[a].dv, p.kv_len > 0 && p.value_dim > 0);
    if (p.bias) {
      if (coverage.whole)
        gate_shared(shared.bias, drawn.options.bias_shape, answers[a].dbias, gates[a].dbias);
      report(gates[a].dbias, !shared.bias.empty(), coverage.whole);
    }
    if (p.sink) {
      if (coverage.whole)
        gate_shared(shared.sink, {1, p.query_heads, 1, 1}, answers[a].dsink, gates[a].dsink);
      report(gates[a].dsink, true, coverage.whole);
    }
  }
}

Result<GradientReport> check_gradients(const Problem& problem, const DeviceFacts& facts,
                                       const CheckOptions& options) {
  if (Status status = validate(problem); !status.ok()) return status;
  if (options.rows < 0)
    return Status(StatusCode::invalid_argument,
                  "rows: must be at least 0 (0 is automatic), got " + std::to_string(options.rows));
  if (problem.dtype != DType::f32)
    return Status(StatusCode::unsupported, "check: --backward judges gradients in f32, got " +
                                               std::string(dtype_name(problem.dtype)) + " (" +
                                               to_text(problem) + ")");
  GradientReport report;
  report.problem = problem;
  report.facts = facts;

  // Plans first: what nothing serves is refused before any input is drawn.
  std::vector<Plan> plans;
  if (options.kernel == "all") {
    for (const KernelEntry& kernel : backward_kernels()) {
      if (kernel.device != facts.device.kind) continue;
      KernelReport line;
      line.kernel = kernel.name;
      const PlanOptions plan_options{std::string(kernel.name), options.threads, options.num_splits};
      Result<Plan> planned = plan_backward(problem, facts, plan_options);
      if (planned.ok())
        plans.push_back(planned.value());
      else
        line.refusal = planned.status().message();
      report.kernels.push_back(line);
    }
  } else {
    Result<Plan> planned =
        plan_backward(problem, facts, {options.kernel, options.threads, options.num_splits});
    if (!planned.ok()) return planned.status();
    plans.push_back(planned.value());
    report.kernels.emplace_back();
    report.kernels.back().kernel = planned.value().kernel;
  }
  if (plans.empty()) return plan_backward(problem, facts).status();
  if (problem.batch == 0 || problem.query_heads == 0 || (problem.query_len == 0 && problem.kv_len == 0))
    return Status(StatusCode::invalid_argument,
                  "check: " + to_text(problem) + " has no gradient, so there is nothing to compare");

  if (options.progress) options.progress("drawing inputs");
  const inputs::HostInputs drawn = inputs::draw(problem);
  const std::vector<float> dout = inputs::draw_dout(problem);
  const Problem& p = problem;
  const HostOperands operands = form_operands(p, drawn);
  const HostTensor dout_tensor = packed_tensor({p.batch, p.query_heads, p.query_len, p.value_dim}, dout);
  if (options.progress) options.progress("running forward");
  Result<Answer> forward =
      run_kernel(problem, facts, {"", options.threads, 0}, operands, form_o(p), form_lse(p));
  if (!forward.ok()) return forward.status();
  const HostTensor& o = forward.value().o;
  const HostTensor& lse = forward.value().lse;
  report.forward_kernel = forward.value().plan.kernel;

  std::vector<GradientAnswer> answers;
  std::vector<KernelReport> ran;
  for (const Plan& planned : plans) {
    if (options.progress) options.progress("running " + planned.kernel);
    Result<GradientAnswer> answer =
        run_backward_trapped(planned, operands, o, lse, dout_tensor, operands.q, operands.k, operands.v);
    if (!answer.ok()) return answer.status();
    KernelReport line;
    line.kernel = planned.kernel;
    line.computed_as = planned.computed_as;
    line.trespass = answer.value().trespass;
    line.repeat = repeat_command(problem, facts, options, planned.kernel) + " --backward";
    ran.push_back(line);
    answers.push_back(std::move(answer).value());
  }
  report.coverage = gradient_coverage(problem, options.rows);
  judge_gradients(problem, drawn, dout, o, lse, report.coverage, worker_count(facts, options.threads),
                  answers, ran, options.progress);
  for (const KernelReport& line : ran)
    *std::find_if(report.kernels.begin(), report.kernels.end(),
                  [&](const KernelReport& k_line) { return k_line.kernel == line.kernel; }) = line;
  return report;
}

std::string describe(const GradientReport& report) {
  const Problem& p = report.problem;
  std::string text = to_text(p) + ": gradients, from O and LSE of " + report.forward_kernel + "; " +
                     std::to_string(report.coverage.rows) + " of " + std::to_string(p.query_len) +
                     " query rows of each head and " + std::to_string(report.coverage.keys) + " of " +
                     std::to_string(p.kv_len) + " keys of each KV head compared" +
                     (report.coverage.whole ? "" : " (sampled; --rows N for more)") +
                     " with the double-precision reference\n";
  for (const KernelReport& kernel : report.kernels) text += describe(kernel);
  return text;
}

}  // namespace runmax::check
