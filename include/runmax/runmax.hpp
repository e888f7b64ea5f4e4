// runmax: exact attention that carries a maximum, not a matrix.
//
//   Problem -> validate -> plan(problem, device facts) -> Plan -> run(plan, tensors, workspace, stream)
//
// plan is pure: it allocates nothing and calls no device. run only enqueues on a GPU, and is synchronous on
// the CPU.
#ifndef RUNMAX_RUNMAX_HPP
#define RUNMAX_RUNMAX_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runmax/export.hpp"
#include "runmax/online_softmax.hpp"
#include "runmax/problem.hpp"
#include "runmax/status.hpp"
#include "runmax/tensor.hpp"
#include "runmax/version.hpp"

namespace runmax {

// What planning needs to know of a device. Filled from this machine by device_facts, or by hand for another
// one.
struct DeviceFacts {
  Device device;
  std::string name;
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;

  std::int32_t threads = 1;  // CPU: hardware threads this process may use
  std::string simd;          // CPU: the instruction set the dispatch picks ("AVX3", "AVX2", "SSE4", ...)

  std::int32_t compute_capability = 0;  // CUDA: 75, 80, 90, ...
  std::int32_t multiprocessors = 0;
  std::int32_t max_threads_per_multiprocessor = 0;
  std::int32_t max_blocks_per_multiprocessor = 0;
  std::int32_t registers_per_multiprocessor = 0;
  std::int64_t shared_bytes_per_multiprocessor = 0;
  std::int64_t shared_bytes_per_block = 0;  // without opting in
  std::int64_t shared_bytes_per_block_optin = 0;
  std::int64_t reserved_shared_bytes_per_block = 0;
  std::int64_t l2_bytes = 0;
  std::int32_t driver_version = 0;
  std::int32_t runtime_version = 0;
};

// Facts of a device of this machine. no_device if there is none, with the reason.
RUNMAX_API Result<DeviceFacts> device_facts(Device device = {});

// True if this library was built with CUDA kernels.
RUNMAX_API bool built_with_cuda();

struct PlanOptions {
  std::string kernel;           // force a kernel of the registry by name; empty: the first that accepts
  std::int32_t threads = 0;     // CPU: upper limit of threads; 0: all that the device has
  std::int32_t num_splits = 0;  // parts into which the keys are split; 0: chosen by the plan
};

// Why a kernel that stands before the chosen one (or the forced one) does not serve the problem.
struct Refusal {
  std::string kernel;
  std::string reason;
};

// What was decided. Everything a caller must know before running: which kernel, how it computes, which
// workspace.
struct Plan {
  Problem problem;
  Device device;
  std::string kernel;       // name in the registry
  std::string computed_as;  // the arithmetic, in words
  std::int64_t block_q = 0;
  std::int64_t block_kv = 0;
  std::int64_t num_splits = 1;  // parts into which the keys are split
  std::int64_t work_items = 0;  // independent pieces: tiles on the CPU, blocks on a GPU
  std::int32_t threads = 0;     // CPU: threads used at most; CUDA: threads of a block
  std::int32_t launches = 0;    // kernel launches; 0 on the CPU
  std::size_t workspace_bytes = 0;
  std::vector<Refusal> refusals;
};

// Chooses a kernel. Fails with invalid_argument if the problem breaks a rule, unsupported if no kernel serves
// it (the message holds every kernel's reason), or if the forced kernel refuses.
RUNMAX_API Result<Plan> plan(const Problem& problem, const DeviceFacts& facts,
                             const PlanOptions& options = {});

// The plan as text: one fact a line, "name: value".
RUNMAX_API std::string describe(const Plan& plan);

// Which weights are dropped is a pure function of seed, offset, batch element, query head, query and key.
struct DropoutState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  // calls with other offsets drop other weights
};

// Views of the caller's memory. lse may have data == nullptr if it is not wanted. Shapes are those of
// Problem; a size of 1 where "or 1" stands is broadcast.
struct Tensors {
  TensorView q{};
  TensorView k{};
  TensorView v{};
  TensorView o{};
  TensorView lse{};  // f32 (f64 for an f64 problem), (batch, query_heads, query_len, 1)

  // Each is needed if the problem has the option, and must be empty if it has not.
  TensorView mask{};  // boolean, true may attend: (batch or 1, query_heads or 1, query_len or 1, kv_len or 1)
  TensorView bias{};  // f32 or the problem's dtype, likewise
  TensorView alibi_slopes{};  // f32, (batch or 1, query_heads, 1, 1)
  TensorView sink{};          // f32, (1, query_heads, 1, 1): a score in natural units
  TensorView page_table{};    // i32, (batch, 1, 1, pages of the longest sequence): pages of K and V
  TensorView kv_lengths{};    // i32, (batch, 1, 1, 1)
  DropoutState dropout{};
};

struct Workspace {
  void* data = nullptr;  // aligned to 64 bytes; device memory for a CUDA plan
  std::size_t bytes = 0;
};

// A cudaStream_t as an opaque pointer; nullptr is the legacy default stream. Ignored on the CPU.
using Stream = void*;

// Computes the plan's problem. Shapes, dtypes and devices of the views are checked against the plan first;
// workspace must hold plan.workspace_bytes. Inputs may have any strides; outputs must not overlap inputs.
RUNMAX_API Status run(const Plan& plan, const Tensors& tensors, Workspace workspace, Stream stream = nullptr);

// Options of the one-call form.
struct AttentionOptions {
  Problem options;  // softmax_scale, causal, window, ...; shapes and dtype are taken from the tensors
  PlanOptions plan;
};

// One call: derives the problem from the views, plans, takes a temporary workspace, runs. For repeated calls
// of one shape use plan and run.
RUNMAX_API Status attention(const Tensors& tensors, const AttentionOptions& options = {},
                            Stream stream = nullptr);

// Merges two finished partial results over disjoint keys: (o_a, lse_a) and (o_b, lse_b), into (o, lse), in
// f32 on the CPU. A side whose lse is -inf is not read. o may be the same memory as o_a or o_b, with the same
// strides.
//   lse = log(exp(lse_a) + exp(lse_b));  o = o_a * exp(lse_a - lse) + o_b * exp(lse_b - lse)
RUNMAX_API Status merge(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b,
                        const TensorView& lse_b, const TensorView& o, const TensorView& lse);

// A line of the registry.
struct KernelInfo {
  std::string_view name;
  DeviceKind device;
  std::string_view summary;
  bool built;  // false: this library was built without the compiler it needs
};

// Every kernel, in the order in which plan asks them.
RUNMAX_API std::vector<KernelInfo> list_kernels();

}  // namespace runmax

#endif  // RUNMAX_RUNMAX_HPP
