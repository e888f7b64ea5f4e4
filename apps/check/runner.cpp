#include "check/runner.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "runtime/cuda_runtime.hpp"
#include "runtime/device_memory.hpp"

namespace runmax::check {
namespace {

constexpr std::size_t guard_bytes = 256;  // a multiple of every alignment a buffer may ask for
constexpr unsigned char guard_value = 0xA5;

// Device memory of some payload with guards on both sides.
class Guarded {
 public:
  // `payload` bytes copied in.
  static Result<Guarded> make(Device device, const void* payload, std::size_t bytes) {
    Guarded guarded;
    guarded.device_ = device;
    guarded.image_.assign(bytes + 2 * guard_bytes, guard_value);
    if (bytes > 0) std::memcpy(guarded.image_.data() + guard_bytes, payload, bytes);
    Result<DeviceMemory> memory = DeviceMemory::allocate(device, guarded.image_.size());
    if (!memory.ok()) return memory.status();
    guarded.memory_ = std::move(memory).value();
    if (device.kind == DeviceKind::cuda) {
      if (Status status = cuda_copy_to_device(device.index, guarded.memory_.data(), guarded.image_.data(),
                                              guarded.image_.size());
          !status.ok())
        return status;
    } else {
      std::memcpy(guarded.memory_.data(), guarded.image_.data(), guarded.image_.size());
    }
    return guarded;
  }

  void* data() const { return static_cast<unsigned char*>(memory_.data()) + guard_bytes; }

  // Copies back; afterwards payload() is what lies in memory.
  Status fetch() {
    if (device_.kind == DeviceKind::cuda)
      return cuda_copy_to_host(device_.index, image_.data(), memory_.data(), image_.size());
    std::memcpy(image_.data(), memory_.data(), image_.size());
    return {};
  }

  const unsigned char* payload() const { return image_.data() + guard_bytes; }

  // The distance of the first changed guard byte from the payload: negative before it, else behind it.
  bool intact(std::int64_t& distance) const {
    for (std::size_t i = 0; i < guard_bytes; ++i)
      if (image_[i] != guard_value) {
        distance = static_cast<std::int64_t>(i) - static_cast<std::int64_t>(guard_bytes);
        return false;
      }
    for (std::size_t i = image_.size() - guard_bytes; i < image_.size(); ++i)
      if (image_[i] != guard_value) {
        distance = static_cast<std::int64_t>(i - (image_.size() - guard_bytes));
        return false;
      }
    return true;
  }

 private:
  Device device_;
  DeviceMemory memory_;
  std::vector<unsigned char> image_;
};

// An output: every byte 0xFF, which as a floating-point number is a NaN.
Result<Guarded> upload_poison(Device device, std::size_t bytes) {
  const std::vector<unsigned char> poison(bytes, 0xFF);
  return Guarded::make(device, poison.data(), bytes);
}

void note_guards(const char* name, const Guarded& guarded, std::string& trespass) {
  std::int64_t distance = 0;
  if (!trespass.empty() || guarded.intact(distance)) return;
  trespass = std::string(name) + ": a byte was written " +
             (distance < 0 ? std::to_string(-distance) + " before the start"
                           : std::to_string(distance) + " past the end") +
             " of the buffer";
}

}  // namespace

Result<Answer> run_trapped(Device device, std::size_t workspace_bytes, const HostOperands& in,
                           const HostTensor& o, const HostTensor& lse, const Launch& launch) {
  struct Input {
    const char* name;
    const HostTensor& host;
    TensorView Tensors::*view;
    bool always;  // else a tensor whose shape is all zero was not given
    std::vector<unsigned char> bytes{};
    Guarded memory{};
    bool given() const { return always || host.shape != HostTensor{}.shape; }
  };
  Input inputs[] = {{"q", in.q, &Tensors::q, true},
                    {"k", in.k, &Tensors::k, true},
                    {"v", in.v, &Tensors::v, true},
                    {"mask", in.mask, &Tensors::mask, false},
                    {"bias", in.bias, &Tensors::bias, false},
                    {"alibi_slopes", in.alibi_slopes, &Tensors::alibi_slopes, false},
                    {"sink", in.sink, &Tensors::sink, false},
                    {"page_table", in.page_table, &Tensors::page_table, false},
                    {"kv_lengths", in.kv_lengths, &Tensors::kv_lengths, false}};
  Answer answer;
  Tensors tensors;
  for (Input& input : inputs) {
    if (!input.given()) continue;
    input.bytes = encode(input.host);
    Result<Guarded> memory = Guarded::make(device, input.bytes.data(), input.bytes.size());
    if (!memory.ok()) return memory.status();
    input.memory = std::move(memory).value();
    tensors.*input.view = input.host.view(input.memory.data(), device);
  }
  Result<Guarded> o_memory = upload_poison(device, o.bytes()),
                  lse_memory = upload_poison(device, lse.bytes()),
                  workspace = upload_poison(device, workspace_bytes);
  for (Result<Guarded>* memory : {&o_memory, &lse_memory, &workspace})
    if (!memory->ok()) return memory->status();
  tensors.dropout = in.dropout;
  tensors.o = o.view(o_memory.value().data(), device);
  tensors.lse = lse.view(lse_memory.value().data(), device);
  if (Status status = launch(tensors, {workspace.value().data(), workspace_bytes}); !status.ok())
    return status;
  if (Status status = synchronize(device, nullptr); !status.ok()) return status;

  for (Input& input : inputs) {
    if (!input.given()) continue;
    if (Status status = input.memory.fetch(); !status.ok()) return status;
    note_guards(input.name, input.memory, answer.trespass);
  }
  for (Result<Guarded>* memory : {&o_memory, &lse_memory, &workspace})
    if (Status status = memory->value().fetch(); !status.ok()) return status;
  note_guards("o", o_memory.value(), answer.trespass);
  note_guards("lse", lse_memory.value(), answer.trespass);
  note_guards("workspace", workspace.value(), answer.trespass);
  for (const Input& input : inputs)
    if (answer.trespass.empty() && !input.bytes.empty() &&
        std::memcmp(input.memory.payload(), input.bytes.data(), input.bytes.size()) != 0)
      answer.trespass = std::string(input.name) + ": the input was changed";
  answer.o = take_output("o", o_memory.value().payload(), o, answer.trespass);
  answer.lse = take_output("lse", lse_memory.value().payload(), lse, answer.trespass);
  return answer;
}

Result<Answer> run_trapped(Device device, std::size_t workspace_bytes, const HostTensor& q,
                           const HostTensor& k, const HostTensor& v, const HostTensor& o,
                           const HostTensor& lse, const Launch& launch) {
  return run_trapped(device, workspace_bytes, HostOperands{q, k, v}, o, lse, launch);
}

Result<Answer> run_kernel(const Problem& problem, const DeviceFacts& facts, const PlanOptions& options,
                          HostOperands in, HostTensor o, HostTensor lse) {
  Result<Plan> planned = plan(problem, facts, options);
  if (!planned.ok()) return planned.status();
  const Plan& chosen = planned.value();
  for (HostTensor* tensor : {&in.q, &in.k, &in.v, &o}) tensor->dtype = problem.dtype;
  if (problem.dtype == DType::f64) lse.dtype = DType::f64;
  Result<Answer> answer = run_trapped(
      facts.device, chosen.workspace_bytes, in, o, lse,
      [&](const Tensors& tensors, Workspace workspace) { return run(chosen, tensors, workspace, nullptr); });
  if (answer.ok()) answer.value().plan = chosen;
  return answer;
}

Result<Answer> run_kernel(const Problem& problem, const DeviceFacts& facts, const PlanOptions& options,
                          const HostTensor& q, const HostTensor& k, const HostTensor& v, const HostTensor& o,
                          const HostTensor& lse) {
  return run_kernel(problem, facts, options, HostOperands{q, k, v}, o, lse);
}

Result<Answer> run_kernel(const Problem& problem, const DeviceFacts& facts, const PlanOptions& options,
                          const HostTensor& q, const HostTensor& k, const HostTensor& v) {
  const std::array<std::int64_t, 4> rows{problem.batch, problem.query_heads, problem.query_len, 1};
  return run_kernel(problem, facts, options, q, k, v,
                    packed_tensor({rows[0], rows[1], rows[2], problem.value_dim}), packed_tensor(rows));
}

}  // namespace runmax::check
