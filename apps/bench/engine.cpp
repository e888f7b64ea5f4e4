#include "bench/engine.hpp"

#include <chrono>
#include <cstring>
#include <initializer_list>
#include <tuple>

#include "check/forms.hpp"
#include "measure/cpu_cache.hpp"
#include "runmax/backward.hpp"

namespace runmax::bench {
namespace {

using measure::Buffer;

// An output: memory that is all NaN at first, as an element that no kernel writes must not pass.
struct OutputTensor {
  check::HostTensor shape;  // without elements
  Buffer buffer{};
  std::vector<unsigned char> gated{};  // what was handed out

  Status allocate(check::HostTensor like, DType dtype, TensorView& view, measure::MemoryLedger& ledger) {
    shape = std::move(like);
    shape.dtype = dtype;
    Result<Buffer> made = Buffer::allocate({}, shape.bytes(), ledger);
    if (!made.ok()) return made.status();
    buffer = std::move(made.value());
    if (buffer.bytes() > 0) std::memset(buffer.data(), 0xFF, buffer.bytes());
    view = shape.view(buffer.data(), {});
    shape.storage = {};
    return {};
  }
  check::HostTensor take() {
    const auto* bytes = static_cast<const unsigned char*>(buffer.data());
    gated.assign(bytes, bytes + buffer.bytes());
    check::HostTensor values = shape;
    values.storage.resize(buffer.bytes() / static_cast<std::size_t>(dtype_bytes(shape.dtype)));
    check::decode(bytes, values);
    return values;
  }
  bool unchanged() const {
    return gated.empty() || std::memcmp(buffer.data(), gated.data(), gated.size()) == 0;
  }
};

// LSE, dBias and dSink are FP32, in double double.
DType wide_dtype(const Problem& p) { return p.dtype == DType::f64 ? DType::f64 : DType::f32; }

// What both passes have: a plan, a workspace, views of the inputs.
class Engine : public Contender {
 public:
  Engine(const Workload& workload, Plan plan, int threads)
      : workload_(workload), plan_(std::move(plan)), tensors_(workload.tensors) {
    // The threads that were asked for: a plan with less work takes fewer.
    identity_ = {"runmax", plan_.kernel, plan_.computed_as, threads};
  }

  virtual Status allocate_outputs(measure::MemoryLedger& ledger) {
    const Problem& p = plan_.problem;
    if (Status status = o_.allocate(check::form_o(p), p.dtype, tensors_.o, ledger); !status.ok())
      return status;
    if (Status status = lse_.allocate(check::form_lse(p), wide_dtype(p), tensors_.lse, ledger); !status.ok())
      return status;
    return allocate_workspace(plan_.workspace_bytes, workspace_, ledger);
  }

  const Identity& identity() const override { return identity_; }

  Result<double> time(int runs) override {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    for (int one = 0; one < runs; ++one)
      if (Status status = run_once(); !status.ok()) return status;
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void flush() override {
    for (const Buffer* buffer : std::initializer_list<const Buffer*>{&workload_.q, &workload_.k, &workload_.v,
                                                                     &o_.buffer, &lse_.buffer, &workspace_})
      measure::flush_lines(buffer->data(), buffer->bytes());
    for (const Buffer& buffer : workload_.options) measure::flush_lines(buffer.data(), buffer.bytes());
  }

 protected:
  virtual Status run_once() = 0;

  static Status allocate_workspace(std::size_t bytes, Buffer& buffer, measure::MemoryLedger& ledger) {
    Result<Buffer> made = Buffer::allocate({}, bytes, ledger);
    if (!made.ok()) return made.status();
    buffer = std::move(made.value());
    if (bytes > 0) std::memset(buffer.data(), 0xFF, bytes);
    return {};
  }

  const Workload& workload_;
  Plan plan_;
  Identity identity_;
  OutputTensor o_, lse_;
  Buffer workspace_;
  Tensors tensors_;
};

class Forward final : public Engine {
 public:
  using Engine::Engine;

  Result<Output> output() override {
    if (Status status = run_once(); !status.ok()) return status;
    Output output;
    output.attention.plan = plan_;
    output.attention.o = o_.take();
    output.attention.lse = lse_.take();
    return output;
  }

  Result<bool> unchanged() override { return o_.unchanged() && lse_.unchanged(); }

 private:
  Status run_once() override { return run(plan_, tensors_, {workspace_.data(), workspace_.bytes()}); }
};

class Backward final : public Engine {
 public:
  using Engine::Engine;

  // O and LSE come from the forward kernel that plan picks.
  Status prepare(const DeviceFacts& facts, measure::MemoryLedger& ledger) {
    Result<Plan> forward = plan(plan_.problem, facts);
    if (!forward.ok()) return forward.status();
    Buffer workspace;
    if (Status status = allocate_workspace(forward.value().workspace_bytes, workspace, ledger); !status.ok())
      return status;
    return run(forward.value(), tensors_, {workspace.data(), workspace.bytes()});
  }

  Status allocate_outputs(measure::MemoryLedger& ledger) override {
    if (Status status = Engine::allocate_outputs(ledger); !status.ok()) return status;
    const Problem& p = plan_.problem;
    gradients_.dout = workload_.dout_view;
    const DType wide = wide_dtype(p);
    for (const auto& [asked, output, like, dtype, view] :
         {std::tuple{true, &dq_, &tensors_.q, p.dtype, &gradients_.dq},
          {true, &dk_, &tensors_.k, p.dtype, &gradients_.dk},
          {true, &dv_, &tensors_.v, p.dtype, &gradients_.dv},
          {p.bias, &dbias_, &tensors_.bias, wide, &gradients_.dbias},
          {p.sink, &dsink_, &tensors_.sink, wide, &gradients_.dsink}})
      if (asked)
        if (Status status = output->allocate(check::packed_tensor(like->shape), dtype, *view, ledger);
            !status.ok())
          return status;
    return {};
  }

  Result<Output> output() override {
    if (Status status = run_once(); !status.ok()) return status;
    Output output;
    output.attention.plan = plan_;
    if (is_plain(plan_.problem)) {
      output.dq = dq_.take().storage;
      output.dk = dk_.take().storage;
      output.dv = dv_.take().storage;
      return output;
    }
    output.attention.o = o_.take();
    output.attention.lse = lse_.take();
    output.gradients = {plan_, dq_.take(), dk_.take(), dv_.take(), dbias_.take(), dsink_.take(), {}};
    return output;
  }

  Result<bool> unchanged() override {
    return dq_.unchanged() && dk_.unchanged() && dv_.unchanged() && dbias_.unchanged() && dsink_.unchanged();
  }

  void flush() override {
    Engine::flush();
    for (const Buffer* buffer : std::initializer_list<const Buffer*>{
             &workload_.dout, &dq_.buffer, &dk_.buffer, &dv_.buffer, &dbias_.buffer})
      measure::flush_lines(buffer->data(), buffer->bytes());
  }

 private:
  Status run_once() override {
    return run_backward(plan_, tensors_, gradients_, {workspace_.data(), workspace_.bytes()});
  }

  Gradients gradients_;
  OutputTensor dq_, dk_, dv_, dbias_, dsink_;
};

}  // namespace

Result<std::unique_ptr<Contender>> make_engine(const Workload& workload, const DeviceFacts& facts,
                                               const PlanOptions& options, measure::MemoryLedger& ledger) {
  const bool forward = workload.pass == Pass::forward;
  Result<Plan> planned =
      forward ? plan(workload.problem, facts, options) : plan_backward(workload.problem, facts, options);
  if (!planned.ok()) return planned.status();
  if (forward) {
    auto engine = std::make_unique<Forward>(workload, std::move(planned).value(), options.threads);
    if (Status status = engine->allocate_outputs(ledger); !status.ok()) return status;
    return std::unique_ptr<Contender>(std::move(engine));
  }
  auto engine = std::make_unique<Backward>(workload, std::move(planned).value(), options.threads);
  if (Status status = engine->allocate_outputs(ledger); !status.ok()) return status;
  if (Status status = engine->prepare(facts, ledger); !status.ok()) return status;
  return std::unique_ptr<Contender>(std::move(engine));
}

}  // namespace runmax::bench
