#include "bench/engine.hpp"

#include <chrono>
#include <cstring>

#include "measure/cpu_cache.hpp"

namespace runmax::bench {
namespace {

using measure::Buffer;

class Engine final : public Contender {
 public:
  Engine(const Workload& workload, Plan plan) : workload_(workload), plan_(std::move(plan)) {
    identity_ = {"runmax", plan_.kernel, plan_.computed_as, plan_.threads};
  }

  Status allocate(int threads, measure::MemoryLedger& ledger) {
    // What was asked for: a plan with less work than threads takes fewer.
    identity_.threads = threads;
    const Problem& p = plan_.problem;
    const std::array<std::int64_t, 4> o_shape{p.batch, p.query_heads, p.query_len, p.value_dim};
    const std::array<std::int64_t, 4> lse_shape{p.batch, p.query_heads, p.query_len, 1};
    answer_.plan = plan_;
    answer_.o = check::packed_tensor(o_shape);
    answer_.lse = check::packed_tensor(lse_shape);
    struct Wanted {
      Buffer* buffer;
      std::size_t bytes;
    };
    for (const Wanted& wanted : {Wanted{&o_, answer_.o.storage.size() * sizeof(float)},
                                 Wanted{&lse_, answer_.lse.storage.size() * sizeof(float)},
                                 Wanted{&workspace_, plan_.workspace_bytes}}) {
      Result<Buffer> buffer = Buffer::allocate({}, wanted.bytes, ledger);
      if (!buffer.ok()) return buffer.status();
      *wanted.buffer = std::move(buffer.value());
      // As floats these bytes are NaN: an element that no kernel writes must not pass.
      if (wanted.bytes > 0) std::memset(wanted.buffer->data(), 0xFF, wanted.bytes);
    }
    const auto view = [](const Buffer& buffer, std::array<std::int64_t, 4> shape) {
      return packed_view(buffer.data(), DType::f32, shape, Layout::bhsd);
    };
    tensors_.q = view(workload_.q, {p.batch, p.query_heads, p.query_len, p.head_dim});
    tensors_.k = view(workload_.k, {p.batch, p.kv_heads, p.kv_len, p.head_dim});
    tensors_.v = view(workload_.v, {p.batch, p.kv_heads, p.kv_len, p.value_dim});
    tensors_.o = view(o_, o_shape);
    tensors_.lse = view(lse_, lse_shape);
    return {};
  }

  const Identity& identity() const override { return identity_; }

  Result<check::Answer> answer() override {
    if (Status status = run_once(); !status.ok()) return status;
    if (Status status = o_.to_host(answer_.o.storage.data(), o_.bytes()); !status.ok()) return status;
    if (Status status = lse_.to_host(answer_.lse.storage.data(), lse_.bytes()); !status.ok()) return status;
    return answer_;
  }

  Result<bool> unchanged() override {
    return std::memcmp(o_.data(), answer_.o.storage.data(), o_.bytes()) == 0 &&
           std::memcmp(lse_.data(), answer_.lse.storage.data(), lse_.bytes()) == 0;
  }

  Result<double> time(int runs) override {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    for (int run = 0; run < runs; ++run)
      if (Status status = run_once(); !status.ok()) return status;
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void flush() override {
    for (const Buffer* buffer : std::initializer_list<const Buffer*>{&workload_.q, &workload_.k, &workload_.v,
                                                                     &o_, &lse_, &workspace_})
      measure::flush_lines(buffer->data(), buffer->bytes());
  }

 private:
  Status run_once() { return run(plan_, tensors_, {workspace_.data(), workspace_.bytes()}); }

  const Workload& workload_;
  Plan plan_;
  Identity identity_;
  Buffer o_, lse_, workspace_;
  Tensors tensors_;
  check::Answer answer_;
};

}  // namespace

Result<std::unique_ptr<Contender>> make_engine(const Workload& workload, const DeviceFacts& facts,
                                               const PlanOptions& options, measure::MemoryLedger& ledger) {
  Result<Plan> planned = plan(workload.problem, facts, options);
  if (!planned.ok()) return planned.status();
  auto engine = std::make_unique<Engine>(workload, std::move(planned).value());
  if (Status status = engine->allocate(options.threads, ledger); !status.ok()) return status;
  return std::unique_ptr<Contender>(std::move(engine));
}

}  // namespace runmax::bench
