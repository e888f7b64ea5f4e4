#include "check/gradient_check.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <type_traits>

#include "check/double_judge.hpp"
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

gate::GradientType gradient_type(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return gate::gradient_f16;
    case DType::bf16:
      return gate::gradient_bf16;
    case DType::f64:
      return gate::gradient_f64;
    default:
      return gate::gradient_f32;
  }
}

struct Gates {
  gate::GradientGate dq, dk, dv, dbias, dsink;
  explicit Gates(const Problem& p)
      : dq("dq", longest_sum(p), gradient_type(p.dtype)),
        dk("dk", longest_sum(p), gradient_type(p.dtype)),
        dv("dv", longest_sum(p), gradient_type(p.dtype)),
        dbias("dbias", std::max(longest_sum(p), p.batch * p.query_heads * p.query_len),
              gradient_type(p.dtype)),
        dsink("dsink", std::max(longest_sum(p), p.batch * p.query_len), gradient_type(p.dtype)) {}
};

// The elements of a tensor of f64 (T = double) or of any other type.
template <class T>
const T* elements_of(const HostTensor& tensor) {
  if constexpr (std::is_same_v<T, double>)
    return tensor.wide.data();
  else
    return tensor.storage.data();
}

// What the gradients are of: the numbers that the kernels were given, dense, and where they lay.
template <class T>
struct GradientData {
  const Problem& p;
  const T *q, *k, *v, *dout;  // (batch, heads, length, dim)
  const inputs::HostOptions& options;
  const HostTensor &o, &lse, &page_table;  // page_table: if there is one
  std::vector<SequencePlace> places;
  const GradientCoverage& coverage;
};

// One KV head of the reference: the rows of its query heads, head after head, and its keys.
template <class Real>
struct HeadReference {
  std::vector<reference::RowGradient<Real>> rows;
  reference::KeyGradients<Real> keys;
};

// One KV head of one batch element.
template <class T, class Real>
class HeadCheck {
 public:
  HeadCheck(const GradientData<T>& data, std::int64_t batch, std::int64_t kv_head)
      : data_(data),
        p_(data.p),
        place_(data.places[static_cast<std::size_t>(batch)]),
        own_(element_problem(p_, place_.lengths)),
        batch_(batch),
        kv_head_(kv_head),
        rows_(reference::sampled_rows(own_.query_len, data.coverage.rows)),
        keys_(reference::sampled_rows(own_.kv_len, data.coverage.keys)) {}

  HeadReference<Real> reference() const {
    HeadReference<Real> result{{}, {static_cast<std::int64_t>(keys_.size()), p_.head_dim, p_.value_dim}};
    const bool whole = data_.coverage.whole;
    for (std::int64_t g = 0; g < group_of(p_); ++g) {
      const std::int64_t h = query_head(g);
      const reference::Head<T> head = this->head(h);
      reference::GradientReference<Real> reference(head);
      reference.set_least_output(gradient_type(p_.dtype).least_output());
      const reference::ScoreOptions options = reference_options(
          p_, data_.options, batch_, h, diagonal_offset(p_.causal, own_.query_len, own_.kv_len));
      if (whole && p_.bias) reference.keep_score_gradients();
      const reference::Matrix<T> dout{data_.dout + query_row(h) * p_.value_dim, p_.value_dim, 1};
      for (const std::int64_t i : rows_) {
        result.rows.emplace_back();
        reference.row(head, dout, i, visible(i), result.rows.back(), whole ? &result.keys : nullptr, options);
      }
      if (whole) continue;
      const reference::Matrix<T> o{row_of(data_.o, h, 0), data_.o.strides[2], data_.o.strides[3]};
      for (std::int64_t i = 0; i < own_.query_len; ++i)
        reference.saved_row(head, dout, o, i, visible(i), static_cast<Real>(*row_of(data_.lse, h, i)), keys_,
                            result.keys, options);
    }
    return result;
  }

  void gate(const HeadReference<Real>& want, const GradientAnswer& got, Gates& gates) const {
    for (std::int64_t g = 0; g < group_of(p_); ++g)
      for (std::size_t r = 0; r < rows_.size(); ++r)
        gates.dq.add_row(batch_, query_head(g), rows_[r],
                         want.rows[static_cast<std::size_t>(g) * rows_.size() + r],
                         row_of(got.dq, query_head(g), rows_[r]), got.dq.strides[3]);
    const auto head_dim = static_cast<std::size_t>(p_.head_dim),
               value_dim = static_cast<std::size_t>(p_.value_dim);
    for (std::size_t n = 0; n < keys_.size(); ++n) {
      gates.dk.add_key(batch_, kv_head_, keys_[n], want.keys.dk, want.keys.dk_magnitude,
                       want.keys.dk_score_magnitude, n * head_dim, head_dim, key_of(got.dk, keys_[n]),
                       got.dk.strides[3]);
      gates.dv.add_key(batch_, kv_head_, keys_[n], want.keys.dv, want.keys.dv_magnitude,
                       want.keys.dv_score_magnitude, n * value_dim, value_dim, key_of(got.dv, keys_[n]),
                       got.dv.strides[3]);
    }
  }

  // What the head gives to dBias and dSink.
  void add_shared(const HeadReference<Real>& want, SharedSums& sums) const {
    for (std::int64_t g = 0; g < group_of(p_); ++g) {
      const std::int64_t h = query_head(g);
      const OptionRows bias(data_.options.bias_shape, batch_, h);
      for (std::int64_t i = 0; i < own_.query_len; ++i) {
        const auto& row = want.rows[static_cast<std::size_t>(g * own_.query_len + i)];
        const auto s = static_cast<double>(row.score_magnitude);
        for (std::int64_t j = 0; j < own_.kv_len && p_.bias; ++j)
          sums.bias[bias.place(i, j)].add(
              static_cast<double>(row.score_gradient[static_cast<std::size_t>(j)]),
              static_cast<double>(row.score_gradient_magnitude[static_cast<std::size_t>(j)]), s);
        if (p_.sink)
          sums.sink[static_cast<std::size_t>(h)].add(static_cast<double>(row.sink),
                                                     static_cast<double>(row.sink_magnitude), s);
      }
    }
  }

  // Marks the keys of dK or dV that the head has.
  void mark_keys(const HostTensor& tensor, std::vector<bool>& marked) const {
    for (std::int64_t j = 0; j < own_.kv_len && tensor.shape[3] > 0; ++j)
      for (std::int64_t c = 0; c < tensor.shape[3]; ++c)
        marked[static_cast<std::size_t>(key_index(tensor, j) + c * tensor.strides[3])] = true;
  }

 private:
  std::int64_t query_head(std::int64_t g) const { return kv_head_ * group_of(p_) + g; }
  std::int64_t query_row(std::int64_t h) const { return (batch_ * p_.query_heads + h) * p_.query_len; }
  reference::Head<T> head(std::int64_t h) const {
    const std::int64_t key_row = (batch_ * p_.kv_heads + kv_head_) * p_.kv_len;
    return {{data_.q + query_row(h) * p_.head_dim, p_.head_dim, 1},
            {data_.k + key_row * p_.head_dim, p_.head_dim, 1},
            {data_.v + key_row * p_.value_dim, p_.value_dim, 1},
            own_.query_len,
            own_.kv_len,
            p_.head_dim,
            p_.value_dim,
            effective_scale(p_)};
  }
  reference::Keys visible(std::int64_t i) const {
    const KeyRange range = visible_keys(p_.causal, p_.window, own_.query_len, own_.kv_len, i);
    return {range.begin, range.end};
  }
  std::int64_t key_index(const HostTensor& tensor, std::int64_t j) const {
    return form_key_index(p_, tensor, place_, data_.page_table, batch_, kv_head_, j);
  }
  const T* row_of(const HostTensor& tensor, std::int64_t h, std::int64_t i) const {
    if (tensor.elements() == 0) return elements_of<T>(tensor);
    return elements_of<T>(tensor) + form_index(p_, tensor, place_, batch_, h, i);
  }
  const T* key_of(const HostTensor& tensor, std::int64_t j) const {
    return elements_of<T>(tensor) + (tensor.shape[3] > 0 ? key_index(tensor, j) : 0);
  }

  const GradientData<T>& data_;
  const Problem& p_;
  SequencePlace place_;
  Problem own_;  // the dense problem of the batch element
  std::int64_t batch_, kv_head_;
  std::vector<std::int64_t> rows_, keys_;
};

void gate_shared(const std::vector<SharedSum>& sums, const std::array<std::int64_t, 4>& shape,
                 const HostTensor& got, gate::GradientGate& gate) {
  std::size_t n = 0;
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t i = 0; i < shape[2]; ++i)
        for (std::int64_t j = 0; j < shape[3]; ++j, ++n)
          gate.add_element(b, h, i, j, sums[n].want, sums[n].magnitude, sums[n].weighed,
                           got.value(b, h, i, j));
}

// What no batch element uses of K and V has a gradient of 0.
void gate_unused(const HostTensor& got, const std::vector<bool>& used, gate::GradientGate& gate) {
  for (std::int64_t b = 0; b < got.shape[0]; ++b)
    for (std::int64_t h = 0; h < got.shape[1]; ++h)
      for (std::int64_t j = 0; j < got.shape[2]; ++j)
        for (std::int64_t c = 0; c < got.shape[3]; ++c)
          if (!used[static_cast<std::size_t>(got.index(b, h, j, c))])
            gate.add_element(b, h, j, c, 0, 0, 0, got.value(b, h, j, c));
}

// Everything that the gates are asked about, head by head.
template <class T, class Real>
void add_all(const GradientData<T>& data, int threads, const std::vector<GradientAnswer>& answers,
             std::vector<Gates>& gates, SharedSums& shared,
             const std::function<void(const std::string&)>& progress) {
  const Problem& p = data.p;
  const std::int64_t heads = p.batch * p.kv_heads;
  // A few heads at a time, so that memory is that of a few.
  const std::int64_t together = std::max(threads, 1);
  for (std::int64_t first = 0; first < heads; first += together) {
    if (progress)
      progress("gradient reference: KV head " + std::to_string(first + 1) + " of " + std::to_string(heads));
    const std::int64_t count = std::min(together, heads - first);
    std::vector<HeadReference<Real>> wanted(static_cast<std::size_t>(count));
    std::atomic<std::int64_t> next{0};
    const auto head = [&](std::int64_t n) {
      return HeadCheck<T, Real>(data, (first + n) / p.kv_heads, (first + n) % p.kv_heads);
    };
    const auto work = [&] {
      for (std::int64_t n = next++; n < count; n = next++)
        wanted[static_cast<std::size_t>(n)] = head(n).reference();
    };
    std::vector<std::thread> pool;
    for (std::int64_t t = 1; t < count; ++t) pool.emplace_back(work);
    work();
    for (std::thread& thread : pool) thread.join();
    for (std::int64_t n = 0; n < count; ++n) {
      const HeadReference<Real>& want = wanted[static_cast<std::size_t>(n)];
      if (data.coverage.whole) head(n).add_shared(want, shared);
      for (std::size_t a = 0; a < answers.size(); ++a) head(n).gate(want, answers[a], gates[a]);
    }
  }
  if (p.page_size == 0 && !p.seqused) return;
  for (std::size_t a = 0; a < answers.size(); ++a)
    for (const auto& [tensor, gate] :
         {std::pair{&answers[a].dk, &gates[a].dk}, std::pair{&answers[a].dv, &gates[a].dv}}) {
      std::vector<bool> used(tensor->storage.size(), false);
      for (std::int64_t n = 0; n < heads; ++n)
        HeadCheck<T, Real>(data, n / p.kv_heads, n % p.kv_heads).mark_keys(*tensor, used);
      gate_unused(*tensor, used, *gate);
    }
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

Result<GradientAnswer> run_backward_trapped(const Plan& plan, HostOperands in, HostTensor o, HostTensor lse,
                                            HostTensor dout, HostTensor dq, HostTensor dk, HostTensor dv) {
  const Device device;
  struct Operand {
    const char* name;
    const HostTensor& tensor;
    Guarded memory;
    TensorView* view;
  };
  const Problem& p = plan.problem;
  HostTensor dbias = p.bias ? packed_tensor(in.bias.shape) : HostTensor{};
  HostTensor dsink = p.sink ? packed_tensor(in.sink.shape) : HostTensor{};
  for (HostTensor* tensor : {&in.q, &in.k, &in.v, &o, &dout, &dq, &dk, &dv}) tensor->dtype = p.dtype;
  if (p.dtype == DType::f64)
    for (HostTensor* tensor : {&lse, &dbias, &dsink}) tensor->dtype = DType::f64;
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
  input("page_table", in.page_table, tensors.page_table, p.page_size > 0);
  input("kv_lengths", in.kv_lengths, tensors.kv_lengths, p.seqused);
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
    to = take_output(operand.name, operand.memory.payload(), operand.tensor, answer.trespass);
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
  // The reference of f64 computes in long double, which has no vectors.
  const double all = visible_pairs(p) * pair * (p.dtype == DType::f64 ? 16 : 1);
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
  std::vector<Gates> gates(answers.size(), Gates(p));
  SharedSums shared;
  shared.bias.resize(drawn.options.bias.size());
  shared.sink.resize(drawn.options.sink.size());
  const HostTensor page_table = p.page_size > 0 ? form_operands(p, drawn).page_table : HostTensor{};
  const auto add = [&]<class T, class Real>(const T* q, const T* k, const T* v, const T* wide_dout, Real) {
    const GradientData<T> data{
        p, q, k, v, wide_dout, drawn.options, o, lse, page_table, places_of(p, drawn), coverage};
    add_all<T, Real>(data, threads, answers, gates, shared, progress);
  };
  if (p.dtype == DType::f64) {
    const DoubleInputs wide = double_inputs(drawn);
    const std::vector<double> wide_dout = with_low_bits(dout);
    // A reference in double would err as much as what it judges.
    add(wide.q.data(), wide.k.data(), wide.v.data(), wide_dout.data(), 0.0L);
  } else {
    add(drawn.q.data(), drawn.k.data(), drawn.v.data(), dout.data(), 0.0);
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
  inputs::HostInputs drawn = inputs::draw(problem);
  std::vector<float> dout = inputs::draw_dout(problem);
  round_to(problem.dtype, drawn);
  round_to(problem.dtype, dout);
  const Problem& p = problem;
  const HostOperands operands = form_operands(p, drawn);
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
    Result<GradientAnswer> answer = run_backward_trapped(planned, operands, o, lse, form_dout(p, dout),
                                                         operands.q, operands.k, operands.v);
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
