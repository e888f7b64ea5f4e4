#include "bench/engine.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <initializer_list>

#include "measure/cpu_cache.hpp"
#include "runmax/backward.hpp"

namespace runmax::bench {
namespace {

using measure::Buffer;

// Memory of `floats` floats that are all NaN: an element that no kernel writes must not pass.
Status allocate(Buffer& buffer, std::size_t bytes, measure::MemoryLedger& ledger) {
  Result<Buffer> made = Buffer::allocate({}, bytes, ledger);
  if (!made.ok()) return made.status();
  buffer = std::move(made.value());
  if (bytes > 0) std::memset(buffer.data(), 0xFF, bytes);
  return {};
}

std::size_t elements(const std::array<std::int64_t, 4>& shape) {
  return static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]);
}

// What both passes have: a plan, a workspace, views of the inputs.
class Engine : public Contender {
 public:
  Engine(const Workload& workload, Plan plan, int threads) : workload_(workload), plan_(std::move(plan)) {
    // The threads that were asked for: a plan with less work takes fewer.
    identity_ = {"runmax", plan_.kernel, plan_.computed_as, threads};
    const Problem& p = plan_.problem;
    q_shape_ = {p.batch, p.query_heads, p.query_len, p.head_dim};
    k_shape_ = {p.batch, p.kv_heads, p.kv_len, p.head_dim};
    v_shape_ = {p.batch, p.kv_heads, p.kv_len, p.value_dim};
    o_shape_ = {p.batch, p.query_heads, p.query_len, p.value_dim};
    lse_shape_ = {p.batch, p.query_heads, p.query_len, 1};
    tensors_.q = view(workload_.q, q_shape_);
    tensors_.k = view(workload_.k, k_shape_);
    tensors_.v = view(workload_.v, v_shape_);
  }

  virtual Status allocate_outputs(measure::MemoryLedger& ledger) {
    if (Status status = allocate(o_, elements(o_shape_) * sizeof(float), ledger); !status.ok()) return status;
    if (Status status = allocate(lse_, elements(lse_shape_) * sizeof(float), ledger); !status.ok())
      return status;
    tensors_.o = view(o_, o_shape_);
    tensors_.lse = view(lse_, lse_shape_);
    return allocate(workspace_, plan_.workspace_bytes, ledger);
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
                                                                     &o_, &lse_, &workspace_})
      measure::flush_lines(buffer->data(), buffer->bytes());
  }

 protected:
  virtual Status run_once() = 0;

  static TensorView view(const Buffer& buffer, const std::array<std::int64_t, 4>& shape) {
    return packed_view(buffer.data(), DType::f32, shape, Layout::bhsd);
  }
  static std::vector<float> values(const Buffer& buffer) {
    return {buffer.floats(), buffer.floats() + buffer.bytes() / sizeof(float)};
  }
  static bool same(const Buffer& buffer, const std::vector<float>& was) {
    return was.empty() || std::memcmp(buffer.data(), was.data(), buffer.bytes()) == 0;
  }

  const Workload& workload_;
  Plan plan_;
  Identity identity_;
  std::array<std::int64_t, 4> q_shape_{}, k_shape_{}, v_shape_{}, o_shape_{}, lse_shape_{};
  Buffer o_, lse_, workspace_;
  Tensors tensors_;
};

class Forward final : public Engine {
 public:
  using Engine::Engine;

  Result<Output> output() override {
    if (Status status = run_once(); !status.ok()) return status;
    output_.attention.plan = plan_;
    output_.attention.o = check::packed_tensor(o_shape_, values(o_));
    output_.attention.lse = check::packed_tensor(lse_shape_, values(lse_));
    return output_;
  }

  Result<bool> unchanged() override {
    return same(o_, output_.attention.o.storage) && same(lse_, output_.attention.lse.storage);
  }

 private:
  Status run_once() override { return run(plan_, tensors_, {workspace_.data(), workspace_.bytes()}); }

  Output output_;
};

class Backward final : public Engine {
 public:
  using Engine::Engine;

  // O and LSE come from the forward kernel that plan picks.
  Status prepare(const DeviceFacts& facts, measure::MemoryLedger& ledger) {
    Result<Plan> forward = plan(plan_.problem, facts);
    if (!forward.ok()) return forward.status();
    Buffer workspace;
    if (Status status = allocate(workspace, forward.value().workspace_bytes, ledger); !status.ok())
      return status;
    return run(forward.value(), tensors_, {workspace.data(), workspace.bytes()});
  }

  Status allocate_outputs(measure::MemoryLedger& ledger) override {
    if (Status status = Engine::allocate_outputs(ledger); !status.ok()) return status;
    if (Status status = allocate(dq_, elements(q_shape_) * sizeof(float), ledger); !status.ok())
      return status;
    if (Status status = allocate(dk_, elements(k_shape_) * sizeof(float), ledger); !status.ok())
      return status;
    if (Status status = allocate(dv_, elements(v_shape_) * sizeof(float), ledger); !status.ok())
      return status;
    gradients_.dout = view(workload_.dout, o_shape_);
    gradients_.dq = view(dq_, q_shape_);
    gradients_.dk = view(dk_, k_shape_);
    gradients_.dv = view(dv_, v_shape_);
    return {};
  }

  Result<Output> output() override {
    if (Status status = run_once(); !status.ok()) return status;
    output_.attention.plan = plan_;
    output_.dq = values(dq_);
    output_.dk = values(dk_);
    output_.dv = values(dv_);
    return output_;
  }

  Result<bool> unchanged() override {
    return same(dq_, output_.dq) && same(dk_, output_.dk) && same(dv_, output_.dv);
  }

  void flush() override {
    Engine::flush();
    for (const Buffer* buffer : std::initializer_list<const Buffer*>{&workload_.dout, &dq_, &dk_, &dv_})
      measure::flush_lines(buffer->data(), buffer->bytes());
  }

 private:
  Status run_once() override {
    return run_backward(plan_, tensors_, gradients_, {workspace_.data(), workspace_.bytes()});
  }

  Gradients gradients_;
  Buffer dq_, dk_, dv_;
  Output output_;
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
