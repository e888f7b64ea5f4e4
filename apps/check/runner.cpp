#include "check/runner.hpp"

#include <cstring>
#include <limits>

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

Result<Guarded> upload(Device device, const HostTensor& tensor) {
  return Guarded::make(device, tensor.storage.data(), tensor.storage.size() * sizeof(float));
}

// An output: every byte 0xFF, which as f32 is a NaN.
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

void note_input(const char* name, const Guarded& guarded, const HostTensor& tensor, std::string& trespass) {
  if (!trespass.empty() || tensor.storage.empty()) return;
  if (std::memcmp(guarded.payload(), tensor.storage.data(), tensor.storage.size() * sizeof(float)) != 0)
    trespass = std::string(name) + ": the input was changed";
}

// Takes the output from memory; what lies between its elements must still be poison.
HostTensor take_output(const char* name, const Guarded& guarded, const HostTensor& like,
                       std::string& trespass) {
  HostTensor output = like;
  if (output.storage.empty()) return output;
  std::memcpy(output.storage.data(), guarded.payload(), output.storage.size() * sizeof(float));
  std::vector<bool> reached(output.storage.size(), false);
  for (std::int64_t b = 0; b < like.shape[0]; ++b)
    for (std::int64_t h = 0; h < like.shape[1]; ++h)
      for (std::int64_t i = 0; i < like.shape[2]; ++i)
        for (std::int64_t c = 0; c < like.shape[3]; ++c)
          reached[static_cast<std::size_t>(like.index(b, h, i, c))] = true;
  for (std::size_t at = 0; at < reached.size() && trespass.empty(); ++at) {
    const unsigned char* bytes = guarded.payload() + at * sizeof(float);
    if (!reached[at] && (bytes[0] & bytes[1] & bytes[2] & bytes[3]) != 0xFF)
      trespass = std::string(name) + ": the padding between its elements was written, at element " +
                 std::to_string(at) + " of its memory";
  }
  return output;
}

}  // namespace

Result<Answer> run_trapped(Device device, std::size_t workspace_bytes, const HostTensor& q,
                           const HostTensor& k, const HostTensor& v, const HostTensor& o,
                           const HostTensor& lse, const Launch& launch) {
  Answer answer;
  Result<Guarded> q_memory = upload(device, q), k_memory = upload(device, k), v_memory = upload(device, v),
                  o_memory = upload_poison(device, o.storage.size() * sizeof(float)),
                  lse_memory = upload_poison(device, lse.storage.size() * sizeof(float)),
                  workspace = upload_poison(device, workspace_bytes);
  for (Result<Guarded>* memory : {&q_memory, &k_memory, &v_memory, &o_memory, &lse_memory, &workspace})
    if (!memory->ok()) return memory->status();

  const Tensors tensors{q.view(q_memory.value().data(), device), k.view(k_memory.value().data(), device),
                        v.view(v_memory.value().data(), device), o.view(o_memory.value().data(), device),
                        lse.view(lse_memory.value().data(), device)};
  if (Status status = launch(tensors, {workspace.value().data(), workspace_bytes}); !status.ok())
    return status;
  if (Status status = synchronize(device, nullptr); !status.ok()) return status;
  for (Result<Guarded>* memory : {&q_memory, &k_memory, &v_memory, &o_memory, &lse_memory, &workspace})
    if (Status status = memory->value().fetch(); !status.ok()) return status;

  note_guards("q", q_memory.value(), answer.trespass);
  note_guards("k", k_memory.value(), answer.trespass);
  note_guards("v", v_memory.value(), answer.trespass);
  note_guards("o", o_memory.value(), answer.trespass);
  note_guards("lse", lse_memory.value(), answer.trespass);
  note_guards("workspace", workspace.value(), answer.trespass);
  note_input("q", q_memory.value(), q, answer.trespass);
  note_input("k", k_memory.value(), k, answer.trespass);
  note_input("v", v_memory.value(), v, answer.trespass);
  answer.o = take_output("o", o_memory.value(), o, answer.trespass);
  answer.lse = take_output("lse", lse_memory.value(), lse, answer.trespass);
  return answer;
}

Result<Answer> run_kernel(const Problem& problem, const DeviceFacts& facts, const PlanOptions& options,
                          const HostTensor& q, const HostTensor& k, const HostTensor& v, const HostTensor& o,
                          const HostTensor& lse) {
  Result<Plan> planned = plan(problem, facts, options);
  if (!planned.ok()) return planned.status();
  const Plan& chosen = planned.value();
  Result<Answer> answer = run_trapped(
      facts.device, chosen.workspace_bytes, q, k, v, o, lse,
      [&](const Tensors& tensors, Workspace workspace) { return run(chosen, tensors, workspace, nullptr); });
  if (answer.ok()) answer.value().plan = chosen;
  return answer;
}

Result<Answer> run_kernel(const Problem& problem, const DeviceFacts& facts, const PlanOptions& options,
                          const HostTensor& q, const HostTensor& k, const HostTensor& v) {
  const std::array<std::int64_t, 4> rows{problem.batch, problem.query_heads, problem.query_len, 1};
  return run_kernel(problem, facts, options, q, k, v,
                    packed_tensor({rows[0], rows[1], rows[2], problem.value_dim}), packed_tensor(rows));
}

}  // namespace runmax::check
