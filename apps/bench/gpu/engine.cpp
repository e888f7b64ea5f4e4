#include "bench/gpu/engine.hpp"

#include <array>
#include <cstring>

#include "problem/format16.hpp"

namespace runmax::bench {
namespace {

using measure::Buffer;
using Shape = std::array<std::int64_t, 4>;

std::size_t elements(const Shape& shape) {
  return static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]);
}

class GpuEngine final : public GpuContender {
 public:
  GpuEngine(const Workload& workload, Plan plan, measure::GpuClock& clock)
      : workload_(workload), plan_(std::move(plan)), clock_(clock) {
    identity_ = {"runmax", plan_.kernel, plan_.computed_as, 0};
  }

  Status prepare(measure::MemoryLedger& ledger) {
    const Problem& p = plan_.problem;
    const std::size_t element_bytes = is_sixteen_bit(p.dtype) ? 2 : 4;
    o_shape_ = {p.batch, p.query_heads, p.query_len, p.value_dim};
    lse_shape_ = {p.batch, p.query_heads, p.query_len, 1};
    for (const auto& [buffer, bytes] : {std::pair{&o_, elements(o_shape_) * element_bytes},
                                        std::pair{&lse_, elements(lse_shape_) * sizeof(float)},
                                        std::pair{&workspace_, plan_.workspace_bytes}}) {
      Result<Buffer> made = Buffer::allocate(plan_.device, bytes, ledger);
      if (!made.ok()) return made.status();
      *buffer = std::move(made.value());
      // All bits set is a NaN in every type: an element that no kernel writes must not pass.
      const std::vector<unsigned char> poison(bytes, 0xFF);
      if (bytes > 0)
        if (Status status = buffer->from_host(poison.data(), bytes); !status.ok()) return status;
    }
    const auto view = [](const Buffer& buffer, DType dtype, const Shape& shape) {
      return packed_view(buffer.data(), dtype, shape, Layout::bhsd);
    };
    tensors_.q = view(workload_.q, p.dtype, {p.batch, p.query_heads, p.query_len, p.head_dim});
    tensors_.k = view(workload_.k, p.dtype, {p.batch, p.kv_heads, p.kv_len, p.head_dim});
    tensors_.v = view(workload_.v, p.dtype, {p.batch, p.kv_heads, p.kv_len, p.value_dim});
    tensors_.o = view(o_, p.dtype, o_shape_);
    tensors_.lse = view(lse_, DType::f32, lse_shape_);
    for (TensorView* tensor : {&tensors_.q, &tensors_.k, &tensors_.v, &tensors_.o, &tensors_.lse})
      tensor->device = plan_.device;
    return {};
  }

  const Identity& identity() const override { return identity_; }

  Result<Output> output() override {
    if (Status status = enqueue(); !status.ok()) return status;
    if (Status status = clock_.finish(); !status.ok()) return status;
    if (Status status = fetch(first_o_, first_lse_); !status.ok()) return status;
    const Problem& p = plan_.problem;
    std::vector<float> o(elements(o_shape_)), lse(elements(lse_shape_));
    if (is_sixteen_bit(p.dtype)) {
      const Format16 format = p.dtype == DType::f16 ? format_f16 : format_bf16;
      for (std::size_t i = 0; i < o.size(); ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, first_o_.data() + 2 * i, sizeof bits);
        o[i] = decode16(format, bits);
      }
    } else if (!o.empty()) {
      std::memcpy(o.data(), first_o_.data(), first_o_.size());
    }
    if (!lse.empty()) std::memcpy(lse.data(), first_lse_.data(), first_lse_.size());
    Output output;
    output.attention.plan = plan_;
    output.attention.o = check::packed_tensor(o_shape_, std::move(o));
    output.attention.lse = check::packed_tensor(lse_shape_, std::move(lse));
    return output;
  }

  Result<bool> unchanged() override {
    std::vector<unsigned char> o, lse;
    if (Status status = clock_.finish(); !status.ok()) return status;
    if (Status status = fetch(o, lse); !status.ok()) return status;
    return o == first_o_ && lse == first_lse_;
  }

  Result<double> time(Way way, int runs) override {
    const measure::GpuWork work = [this] { return enqueue(); };
    if (way == Way::warm) return clock_.warm(work, runs, lead_of(runs));
    if (way == Way::cold) return clock_.cold(work);
    if (!graph_ || graph_->nodes() != runs) {
      Result<std::unique_ptr<measure::GraphSlope>> captured =
          measure::GraphSlope::capture(clock_, work, runs);
      if (!captured.ok()) return captured.status();
      graph_ = std::move(captured.value());
    }
    return graph_->sample(1);
  }

 private:
  Status enqueue() { return run(plan_, tensors_, {workspace_.data(), workspace_.bytes()}, clock_.stream()); }

  Status fetch(std::vector<unsigned char>& o, std::vector<unsigned char>& lse) const {
    o.resize(o_.bytes());
    lse.resize(lse_.bytes());
    if (Status status = o.empty() ? Status() : o_.to_host(o.data(), o.size()); !status.ok()) return status;
    return lse.empty() ? Status() : lse_.to_host(lse.data(), lse.size());
  }

  const Workload& workload_;
  Plan plan_;
  measure::GpuClock& clock_;
  Identity identity_;
  Shape o_shape_{}, lse_shape_{};
  Buffer o_, lse_, workspace_;
  Tensors tensors_;
  std::vector<unsigned char> first_o_, first_lse_;
  std::unique_ptr<measure::GraphSlope> graph_;
};

}  // namespace

Result<std::unique_ptr<GpuContender>> make_gpu_engine(const Workload& workload, const DeviceFacts& facts,
                                                      const PlanOptions& options, measure::GpuClock& clock,
                                                      measure::MemoryLedger& ledger) {
  Result<Plan> planned = plan(workload.problem, facts, options);
  if (!planned.ok()) return planned.status();
  auto engine = std::make_unique<GpuEngine>(workload, std::move(planned).value(), clock);
  if (Status status = engine->prepare(ledger); !status.ok()) return status;
  return std::unique_ptr<GpuContender>(std::move(engine));
}

}  // namespace runmax::bench
