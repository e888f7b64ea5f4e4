// Kinds 21 and 22 on every CUDA kernel: all work of a call is ordered on the stream given, and can be
// captured there.
#include <cuda_runtime_api.h>

#include <cstring>

#include "kit/drawn.hpp"
#include "runtime/cuda_status.hpp"
#include "runtime/device_memory.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

// One launch and several, with and without splits over the keys.
constexpr const char* problems[] = {"q256:d64", "h4:q704:d64", "q1:k3000:d64",
                                    "b2:hq4:hk2:q130:k301:d64:dv40:causal"};

// A stream that does not wait for the default one.
struct OwnStream {
  cudaStream_t stream = nullptr;
  OwnStream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess); }
  ~OwnStream() { (void)cudaStreamDestroy(stream); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
};

bool same_bits(const HostTensor& a, const HostTensor& b) {
  return a.storage.size() == b.storage.size() &&
         std::memcmp(a.storage.data(), b.storage.data(), a.storage.size() * sizeof(float)) == 0;
}

void expect_same(const Answer& got, const Answer& want, const std::string& text) {
  EXPECT_EQ(got.trespass, "") << text;
  EXPECT_TRUE(same_bits(got.o, want.o) && same_bits(got.lse, want.lse)) << text;
}

TEST_P(Case, O066_CallsCanBeCapturedOnACreatedStream) {
  if (on_cpu()) GTEST_SKIP() << "streams are a GPU's";
  for (const std::string text : problems) {
    const Problem p = problem(text);
    const Operands in = drawn(p);
    const auto want = run(p, in);
    if (!want) continue;
    const Result<Answer> got = check::run_trapped(
        facts().device, want->plan.workspace_bytes, in, packed_tensor(o_shape(p)),
        packed_tensor(lse_shape(p)), [&](const Tensors& tensors, Workspace workspace) -> Status {
          const OwnStream own;
          EXPECT_EQ(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeGlobal), cudaSuccess);
          const Status enqueued = runmax::run(want->plan, tensors, workspace, own.stream);
          cudaGraph_t graph = nullptr;
          EXPECT_EQ(cudaStreamEndCapture(own.stream, &graph), cudaSuccess) << text;
          if (!enqueued.ok()) return enqueued;
          std::size_t nodes = 0;
          EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
          EXPECT_GE(nodes, static_cast<std::size_t>(want->plan.launches)) << text;
          // Nothing has run yet, on any stream.
          EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
          float first = 0;
          EXPECT_EQ(cudaMemcpy(&first, tensors.o.data, sizeof first, cudaMemcpyDeviceToHost), cudaSuccess);
          EXPECT_TRUE(std::isnan(first)) << text << ": something was written while the call was captured";
          cudaGraphExec_t executable = nullptr;
          EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
          EXPECT_EQ(cudaGraphLaunch(executable, own.stream), cudaSuccess);
          const Status done = cuda_status(cudaStreamSynchronize(own.stream), "replaying");
          (void)cudaGraphExecDestroy(executable);
          (void)cudaGraphDestroy(graph);
          return done;
        });
    ASSERT_TRUE(got.ok()) << text << ": " << got.status().message();
    expect_same(got.value(), *want, text);
  }
}

// The inputs arrive on the stream behind work of some milliseconds: whatever a call does elsewhere sees NaN.
TEST_P(Case, O065_AllWorkIsOrderedOnTheStreamGiven) {
  if (on_cpu()) GTEST_SKIP() << "streams are a GPU's";
  constexpr std::size_t busy_bytes = std::size_t{256} << 20;
  for (const std::string text : problems) {
    const Problem p = problem(text);
    const Operands in = drawn(p);
    const auto want = run(p, in);
    if (!want) continue;
    const Result<DeviceMemory> busy = DeviceMemory::allocate(facts().device, busy_bytes);
    ASSERT_TRUE(busy.ok()) << busy.status().message();
    for (int repeat = 0; repeat < 5; ++repeat) {
      const Result<Answer> got = check::run_trapped(
          facts().device, want->plan.workspace_bytes, in, packed_tensor(o_shape(p)),
          packed_tensor(lse_shape(p)), [&](const Tensors& tensors, Workspace workspace) -> Status {
            const OwnStream own;
            struct Kept {
              const TensorView& view;
              const HostTensor& host;
              DeviceMemory memory{};
            };
            Kept inputs[] = {{tensors.q, in.q}, {tensors.k, in.k}, {tensors.v, in.v}};
            for (Kept& input : inputs) {
              Result<DeviceMemory> memory = DeviceMemory::allocate(facts().device, input.host.bytes());
              if (!memory.ok()) return memory.status();
              input.memory = std::move(memory.value());
              EXPECT_EQ(cudaMemcpy(input.memory.data(), input.view.data, input.host.bytes(),
                                   cudaMemcpyDeviceToDevice),
                        cudaSuccess);
              EXPECT_EQ(cudaMemset(input.view.data, 0xff, input.host.bytes()), cudaSuccess);
            }
            EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
            for (int fill = 0; fill < 20; ++fill)
              EXPECT_EQ(cudaMemsetAsync(busy.value().data(), fill, busy_bytes, own.stream), cudaSuccess);
            for (const Kept& input : inputs)
              EXPECT_EQ(cudaMemcpyAsync(input.view.data, input.memory.data(), input.host.bytes(),
                                        cudaMemcpyDeviceToDevice, own.stream),
                        cudaSuccess);
            if (Status status = runmax::run(want->plan, tensors, workspace, own.stream); !status.ok())
              return status;
            return cuda_status(cudaStreamSynchronize(own.stream), "running on a stream");
          });
      ASSERT_TRUE(got.ok()) << text << ": " << got.status().message();
      expect_same(got.value(), *want, text);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace runmax::kit
