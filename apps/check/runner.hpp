// Runs one kernel on host data with every trap set: outputs hold NaN, the workspace 0xFF, and guard bytes lie
// round each buffer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "check/host_tensor.hpp"
#include "runmax/runmax.hpp"

namespace runmax::check {

// What a problem reads; tensors that it does not have are empty.
struct HostOperands {
  HostTensor q, k, v;
  HostTensor mask{}, bias{}, alibi_slopes{}, sink{}, page_table{}, kv_lengths{};
  DropoutState dropout{};
};

// Whose answer it is. Of somebody else's kernel O alone is judged, as a baseline's is: it promises nothing
// more.
enum class Standing { ours, foreign };

struct Answer {
  Plan plan;
  HostTensor o;
  HostTensor lse;  // (batch, query_heads, query_len, 1)
  // Empty if memory is as it should be, else what was written that must not be.
  std::string trespass;
  Standing standing = Standing::ours;
  // 16-bit types: the kernel rounds its weights to the type, too.
  bool rounds_weights = false;
};

// What is run: it gets views of memory of the device and a workspace of the size asked for.
using Launch = std::function<Status(const Tensors&, Workspace)>;

// Runs `launch` on copies of the inputs in the device's memory, with the traps set. Fills all of the answer
// but its plan.
Result<Answer> run_trapped(Device device, std::size_t workspace_bytes, const HostOperands& in,
                           const HostTensor& o, const HostTensor& lse, const Launch& launch);
Result<Answer> run_trapped(Device device, std::size_t workspace_bytes, const HostTensor& q,
                           const HostTensor& k, const HostTensor& v, const HostTensor& o,
                           const HostTensor& lse, const Launch& launch);

// Plans and runs. `o` and `lse` give shape and strides of the outputs; their contents are not used. Q, K, V
// and O become the problem's type, LSE f64 for f64. Host memory is copied to and from the device of `facts`.
Result<Answer> run_kernel(const Problem& problem, const DeviceFacts& facts, const PlanOptions& options,
                          HostOperands in, HostTensor o, HostTensor lse);
Result<Answer> run_kernel(const Problem& problem, const DeviceFacts& facts, const PlanOptions& options,
                          const HostTensor& q, const HostTensor& k, const HostTensor& v, const HostTensor& o,
                          const HostTensor& lse);

// The same with packed outputs, (batch, heads, sequence, dim).
Result<Answer> run_kernel(const Problem& problem, const DeviceFacts& facts, const PlanOptions& options,
                          const HostTensor& q, const HostTensor& k, const HostTensor& v);

}  // namespace runmax::check
