// What plan_backward and run_backward refuse, and in which words.
#include <functional>

#include "tests/kernels/cpu/backward_case.hpp"

namespace runmax::testing_cpu {
namespace {

// A problem's tensors and gradients, of which a test may spoil one.
struct Call {
  Problem p = problem_of("b2:hq4:hk2:q5:k9:d8:dv6");
  BackwardInputs in = backward_inputs(p);
  std::vector<float> dq = std::vector<float>(2 * 4 * 5 * 8, 7.0f),
                     dk = std::vector<float>(2 * 2 * 9 * 8, 7.0f),
                     dv = std::vector<float>(2 * 2 * 9 * 6, 7.0f);
  Plan plan = plan_backward(p, cpu_with(2)).value();
  GuardedBytes workspace{plan.workspace_bytes};
  std::size_t workspace_bytes = plan.workspace_bytes;
  Tensors tensors;
  Gradients gradients;

  Call() {
    const auto view = [](const std::vector<float>& data, std::array<std::int64_t, 4> shape) {
      return packed_view(data.data(), DType::f32, shape, Layout::bhsd);
    };
    tensors.q = view(in.in.q, {2, 4, 5, 8});
    tensors.k = view(in.in.k, {2, 2, 9, 8});
    tensors.v = view(in.in.v, {2, 2, 9, 6});
    tensors.o = view(in.answer.o, {2, 4, 5, 6});
    tensors.lse = view(in.answer.lse, {2, 4, 5, 1});
    gradients.dout = view(in.dout, {2, 4, 5, 6});
    gradients.dq = view(dq, {2, 4, 5, 8});
    gradients.dk = view(dk, {2, 2, 9, 8});
    gradients.dv = view(dv, {2, 2, 9, 6});
  }
  Status run() { return run_backward(plan, tensors, gradients, {workspace.data(), workspace_bytes}); }
  bool untouched() const {
    for (const std::vector<float>* array : {&dq, &dk, &dv})
      for (const float x : *array)
        if (x != 7.0f) return false;
    return true;
  }
};

TEST(CpuBackwardInterface, AViewThatDoesNotFitIsRefusedByNameAndNothingIsWritten) {
  const struct {
    const char* message;
    std::function<void(Call&)> spoil;
  } faults[] = {
      {"lse: data is null", [](Call& c) { c.tensors.lse.data = nullptr; }},
      {"lse: shape (batch, heads, length, dim) must be (2, 4, 5, 1), got (0, 0, 0, 0)",
       [](Call& c) { c.tensors.lse = {}; }},
      {"o: data is null", [](Call& c) { c.tensors.o.data = nullptr; }},
      {"dout: shape (batch, heads, length, dim) must be (2, 4, 5, 6), got (2, 4, 5, 8)",
       [](Call& c) { c.gradients.dout.shape[3] = 8; }},
      {"dq: shape (batch, heads, length, dim) must be (2, 4, 5, 8), got (0, 0, 0, 0)",
       [](Call& c) { c.gradients.dq = {}; }},
      {"dk: shape (batch, heads, length, dim) must be (2, 2, 9, 8), got (2, 4, 9, 8)",
       [](Call& c) { c.gradients.dk.shape[1] = 4; }},
      {"dv: dtype must be f32, got f16", [](Call& c) { c.gradients.dv.dtype = DType::f16; }},
      {"dv: is an output and cannot be broadcast (stride 0)", [](Call& c) { c.gradients.dv.strides[1] = 0; }},
      {"dq: is on another device than the plan",
       [](Call& c) {
         c.gradients.dq.device = {DeviceKind::cuda, 0};
       }},
      {"dbias: the problem has no bias", [](Call& c) { c.gradients.dbias = c.gradients.dq; }},
      {"dsink: the problem has no sink", [](Call& c) { c.gradients.dsink = c.gradients.dq; }},
      {"workspace: needs", [](Call& c) { --c.workspace_bytes; }},
  };
  for (const auto& fault : faults) {
    Call call;
    fault.spoil(call);
    const Status status = call.run();
    EXPECT_FALSE(status.ok()) << fault.message;
    EXPECT_NE(status.message().find(fault.message), std::string::npos) << status.message();
    EXPECT_TRUE(call.untouched()) << fault.message;
  }
}

TEST(CpuBackwardInterface, AGradientLeavesItsInputsAsTheyWere) {
  Call call;
  const BackwardInputs before = call.in;
  ASSERT_TRUE(call.run().ok());
  EXPECT_TRUE(same_bits(before.in.q, call.in.in.q) && same_bits(before.in.k, call.in.in.k) &&
              same_bits(before.in.v, call.in.in.v) && same_bits(before.dout, call.in.dout));
  EXPECT_TRUE(same_bits(before.answer.o, call.in.answer.o) &&
              same_bits(before.answer.lse, call.in.answer.lse));
}

TEST(CpuBackwardInterface, APlanIsRunByTheFunctionItWasMadeFor) {
  Call call;
  const Status forward = run(call.plan, call.tensors, {call.workspace.data(), call.workspace.bytes()});
  EXPECT_EQ(forward.code(), StatusCode::invalid_argument);
  EXPECT_NE(forward.message().find("run_backward"), std::string::npos) << forward.message();
  call.plan = plan(call.p, cpu_with(2)).value();
  const Status backward = call.run();
  EXPECT_EQ(backward.code(), StatusCode::invalid_argument);
  EXPECT_NE(backward.message().find("plan_backward"), std::string::npos) << backward.message();
  EXPECT_TRUE(call.untouched());
}

TEST(CpuBackwardInterface, APlanThatWasChangedByHandIsRefusedNotOverrun) {
  Call call;
  call.plan.threads = 64;
  EXPECT_EQ(call.run().code(), StatusCode::invalid_argument);
  EXPECT_TRUE(call.workspace.intact());
  EXPECT_TRUE(call.untouched());
}

TEST(CpuBackwardPlan, NamesKernelOptionAndValueOfWhatItRefuses) {
  const Result<Plan> capped = plan_backward(problem_of("q8:softcap=30:e4m3"), cpu_with(1));
  ASSERT_FALSE(capped.ok());
  EXPECT_EQ(capped.status().code(), StatusCode::unsupported);
  EXPECT_NE(capped.status().message().find("cpu_backward: dtype e4m3"), std::string::npos)
      << capped.status().message();
  const Result<Plan> split = plan_backward(problem_of("q8"), cpu_with(1), {.kernel = "", .num_splits = 3});
  ASSERT_FALSE(split.ok());
  EXPECT_NE(split.status().message().find("num_splits"), std::string::npos) << split.status().message();
  const Result<Plan> unknown = plan_backward(problem_of("q8"), cpu_with(1), {.kernel = "cpu_online"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("no kernel is named 'cpu_online'"), std::string::npos)
      << unknown.status().message();
  for (const char* text : {"q4096:k9007199254740992:d64", "hq100000000:hk1:q1000000000:k0:d1"})
    EXPECT_FALSE(plan_backward(problem_of(text), cpu_with(64)).ok()) << text;
}

TEST(CpuBackwardPlan, NeedsMemoryForRowsAndKeysAloneWhateverTheThreads) {
  const auto bytes = [](const char* text, std::int32_t threads) {
    return static_cast<double>(plan_backward(problem_of(text), cpu_with(threads)).value().workspace_bytes);
  };
  // Eight packed arrays of the size of Q, and what a thread holds.
  EXPECT_LE(bytes("q16384:d64", 2), 8.2 * 4.0 * 16384 * 64 + 2e6);
  EXPECT_LE(bytes("q131072:d64", 2), 8.2 * 4.0 * 131072 * 64 + 2e6);
  EXPECT_LE(bytes("q16384:d64", 64), 8.2 * 4.0 * 16384 * 64 + 64e6);
  EXPECT_LE(bytes("b64:hq32:q512:d64", 2), 8.2 * 4.0 * 512 * 64 * 9 + 2e6) << "heads in flight, not all";
}

TEST(BackwardFlops, AreTwoAndAHalfTimesForwardWhereTheHeadSizesAgree) {
  const Problem p = problem_of("b2:hq4:hk2:q100:k300:d64:causal");
  EXPECT_EQ(backward_flops(p), 2.5 * forward_flops(p));
}

}  // namespace
}  // namespace runmax::testing_cpu
