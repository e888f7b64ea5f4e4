// cuda_simt with every option of the contract: against the reference, by laws that need no reference, and
// replayed from a graph whose lengths change on the device.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check/check.hpp"
#include "check/runner.hpp"
#include "runtime/device_memory.hpp"

namespace runmax {
namespace {

using check::Answer;
using check::HostOperands;
using check::HostTensor;
using check::packed_tensor;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

Problem problem(const std::string& text) {
  Result<Problem> parsed = parse_problem(text);
  EXPECT_TRUE(parsed.ok()) << text << ": " << parsed.status().message();
  return parsed.ok() ? parsed.value() : Problem();
}

class Simt : public testing::Test {
 protected:
  void SetUp() override {
    Result<DeviceFacts> facts = device_facts({DeviceKind::cuda, 0});
    if (!facts.ok()) GTEST_SKIP() << facts.status().message();
    facts_ = facts.value();
  }

  void expect_accepted(const std::string& text, std::int32_t num_splits = 0) {
    check::CheckOptions options;
    options.kernel = "cuda_simt";
    options.num_splits = num_splits;
    const Result<check::CheckReport> report = check::check_problem(problem(text), facts_, options);
    ASSERT_TRUE(report.ok()) << text << ": " << report.status().message();
    EXPECT_TRUE(report.value().accepted()) << check::describe(report.value());
  }

  Answer run(const Problem& p, const HostOperands& in, std::int32_t num_splits = 0) {
    const Result<Answer> answer =
        check::run_kernel(p, facts_, {.kernel = "cuda_simt", .num_splits = num_splits}, in,
                          packed_tensor({p.batch, p.query_heads, p.query_len, p.value_dim}),
                          packed_tensor({p.batch, p.query_heads, p.query_len, 1}));
    EXPECT_TRUE(answer.ok()) << to_text(p) << ": " << answer.status().message();
    if (!answer.ok()) return {};
    EXPECT_EQ(answer.value().trespass, "");
    return answer.value();
  }

  static HostOperands drawn(const Problem& p) {
    inputs::HostInputs in = inputs::draw(p);
    check::round_to(p.dtype, in);
    return {packed_tensor({p.batch, p.query_heads, p.query_len, p.head_dim}, in.q),
            packed_tensor({p.batch, p.kv_heads, p.kv_len, p.head_dim}, in.k),
            packed_tensor({p.batch, p.kv_heads, p.kv_len, p.value_dim}, in.v)};
  }

  DeviceFacts facts_;
};

// Small enough for compute-sanitizer: edges in both lengths, every option at once, every form.
const char* const tiny_problems[] = {
    "b2:hq4:hk2:q70:k130:d40:dv24:causal:softcap=5:mask:bias:alibi:sink:dropout=0.2:f16",
    "hq2:hk1:varlen=3/5,0/2,70/130:d16:paged=16:window=40,3:bf16", "b2:q5:k70:d8:seqused:paged=3:sink"};

TEST_F(Simt, TinyProblemsOfEveryOptionAreAccepted) {
  for (const char* text : tiny_problems)
    for (const int splits : {1, 2}) expect_accepted(text, splits);
}

TEST_F(Simt, EachOptionAgreesWithTheReference) {
  for (const char* text :
       {"q65:k63:mask", "q97:k129:bias", "q33:k64:softcap=2", "q33:k700:softcap=30:scale=2", "q33:k63:alibi",
        "hq12:hk4:q20:k600:d32:alibi", "hq3:q9:k513:sink", "q9:k0:sink", "q40:k300:dropout=0.3",
        "hq2:q7:k1030:d16:dropout=0.9", "b2:hq4:hk2:q100:k100:d32:causal:mask", "q130:k50:d32:causal:mask",
        "q64:k700:d32:causal=top_left:bias", "q90:k90:d16:window=2,3:mask",
        "q50:k80:d32:alibi:causal=top_left", "q600:k600:d16:alibi:causal", "q1:k8192:d64:mask:sink",
        "hq8:hk2:q1:k5000:d128:bias:alibi"})
    expect_accepted(text);
}

TEST_F(Simt, OptionsTogetherAgreeWithTheReference) {
  for (const char* text : {"b2:hq6:hk2:q33:k530:d40:dv24:causal:softcap=5:mask:bias:alibi:sink:dropout=0.2",
                           "hq3:hk1:q5:k2100:d64:window=900,0:softcap=20:mask:bias:alibi:sink:dropout=0.5",
                           "q40:k300:d256:dv192:causal:softcap=30:bias", "q70:k200:d192:dv128:mask:alibi"})
    for (const char* type : {"", ":f16", ":bf16"}) expect_accepted(std::string(text) + type);
}

TEST_F(Simt, HostileInputsWithOptionsAgreeWithTheReference) {
  for (const char* text :
       {"q40:k1000:d64:in=onesign:mask:bias", "q40:k1000:d64:in=wide:mask", "q40:k1000:d64:in=hot:bias:alibi",
        "q40:k1000:d64:in=hot:softcap=30", "q40:k1000:d96:in=needle:bias:sink", "q40:k4096:d64:in=loud:mask",
        "q20:k300:d64:scale=-0.2:bias", "q20:k300:d64:scale=0:bias", "q20:k300:d8:softcap=1e-3:bias"})
    expect_accepted(text);
}

TEST_F(Simt, SixteenBitTypesOfAnyShapeAgreeWithTheReference) {
  for (const char* type : {"f16", "bf16"})
    for (const char* shape :
         {"b2:hq4:hk2:q257:k513:d80:dv48:causal", "q1:k1", "q130:k4097:d128", "q300:d256",
          "hq2:q64:k1000:d1:dv3:window=64,0", "q300:d64:in=onesign", "q128:k1000:d64:in=loud"})
      expect_accepted(std::string(shape) + ":" + type);
}

TEST_F(Simt, PackedPagedAndPartlyUsedBatchesAgreeWithTheReference) {
  for (const char* text :
       {"hq4:hk2:varlen=1/300,0/7,65/64,130/513,5/0:d64:causal",
        "hq4:hk2:varlen=33/33,1/900:d32:dv40:alibi:sink", "varlen=70/70,3/200:d16:paged=19:window=20,0:f16",
        "b3:hq4:hk1:q9:k300:d64:seqused:causal", "b3:hq2:q65:k257:d32:paged=16:seqused:softcap=9",
        "b2:q1:k5000:d64:paged=64:dropout=0.3:bf16", "b2:q130:k130:d24:seqused:mask:bias"})
    for (const int splits : {0, 3}) expect_accepted(text, splits);
}

// More sequences than the arguments of one launch hold.
TEST_F(Simt, ManySequencesAgreeWithTheReference) {
  std::string text = "varlen=2/3";
  for (int b = 1; b < 300; ++b) text += "," + std::to_string(b % 5) + "/" + std::to_string(b % 11);
  expect_accepted(text + ":d8:causal");
}

// The options are beside the plain body, not another kernel: where they change nothing, no bit changes.
TEST_F(Simt, AMaskThatHidesNothingChangesNoBit) {
  for (const char* text : {"hq2:q130:k200:d64:causal", "q64:k4096:d64", "q70:k130:d192:dv100:window=50,3"})
    for (const int splits : {1, 3}) {
      const Problem p = problem(text);
      Problem masked = p;
      masked.mask = true;
      HostOperands in = drawn(p);
      const Answer plain = run(p, in, splits);
      in.mask = packed_tensor({1, 1, 1, 1}, {1});
      in.mask.dtype = DType::boolean;
      const Answer with = run(masked, in, splits);
      EXPECT_EQ(with.o.storage, plain.o.storage) << text;
      EXPECT_EQ(with.lse.storage, plain.lse.storage) << text;
    }
}

TEST_F(Simt, HiddenKeysMayHoldAnything) {
  const Problem p = problem("q70:k200:d24:dv70:mask");
  HostOperands in = drawn(p);
  in.mask = packed_tensor({1, 1, 1, 200});
  in.mask.dtype = DType::boolean;
  for (std::int64_t j = 0; j < 200; ++j) in.mask.at(0, 0, 0, j) = j % 5 == 2 ? 0.0f : 1.0f;
  const Answer want = run(p, in);
  for (const float poison : {nan, std::numeric_limits<float>::infinity()}) {
    for (std::int64_t j = 2; j < 200; j += 5) {
      for (std::int64_t c = 0; c < 24; ++c) in.k.at(0, 0, j, c) = poison;
      for (std::int64_t c = 0; c < 70; ++c) in.v.at(0, 0, j, c) = poison;
    }
    const Answer got = run(p, in);
    EXPECT_EQ(got.o.storage, want.o.storage);
    EXPECT_EQ(got.lse.storage, want.lse.storage);
  }
  // One that is seen shows in the rows that see it, and in no other.
  in.mask = packed_tensor({1, 1, 70, 200}, std::vector<float>(70 * 200, 1.0f));
  in.mask.dtype = DType::boolean;
  for (std::int64_t i = 0; i < 70; ++i)
    for (std::int64_t j = 2; j < 200; j += 5) in.mask.at(0, 0, i, j) = i == 33 && j == 67 ? 1.0f : 0.0f;
  for (std::int64_t c = 0; c < 24; ++c) in.k.at(0, 0, 67, c) = nan;
  const Answer shown = run(p, in);
  for (std::int64_t i = 0; i < 70; ++i) EXPECT_EQ(std::isnan(shown.o.at(0, 0, i, 5)), i == 33) << i;
}

TEST_F(Simt, ABatchInvariantElementHasTheBitsOfItAlone) {
  const Problem all = problem("b3:hq2:q65:k1500:d64:causal:batch_invariant");
  const Problem one = problem("hq2:q65:k1500:d64:causal:batch_invariant");
  const HostOperands in = drawn(all);
  const Answer together = run(all, in);
  for (std::size_t b = 0; b < 3; ++b) {
    const auto part = [&](const HostTensor& from) {
      HostTensor to = packed_tensor({1, from.shape[1], from.shape[2], from.shape[3]});
      std::copy_n(from.storage.begin() + static_cast<std::ptrdiff_t>(b * to.storage.size()),
                  to.storage.size(), to.storage.begin());
      return to;
    };
    const Answer alone = run(one, {part(in.q), part(in.k), part(in.v)});
    EXPECT_EQ(alone.o.storage, part(together.o).storage) << b;
    EXPECT_EQ(alone.lse.storage, part(together.lse).storage) << b;
  }
}

TEST_F(Simt, ThePlanSaysWhoRefusedWhatItServes) {
  const Result<Plan> planned = plan(problem("q64:k64:mask:f16"), facts_);
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  EXPECT_EQ(planned.value().kernel, "cuda_simt");
  EXPECT_FALSE(planned.value().refusals.empty());
}

// O-062 to O-064: what lies on the device may change between replays; a length beyond the captured bound is
// NaN, and never a mean over fewer keys.
TEST_F(Simt, LengthsMayChangeBetweenReplaysOfAGraph) {
  constexpr std::int64_t batch = 4, keys = 128, dim = 8;
  const Problem p = problem("b4:q1:k128:d8:seqused");
  const Result<Plan> planned = plan(p, facts_, {.kernel = "cuda_simt", .num_splits = 2});
  ASSERT_TRUE(planned.ok()) << planned.status().message();
  std::vector<float> zeros(batch * keys * dim, 0), values(batch * keys * dim);
  for (std::size_t at = 0; at < values.size(); ++at) values[at] = static_cast<float>(at / dim % keys);
  const auto device_copy = [&](const void* data, std::size_t bytes) {
    DeviceMemory memory = DeviceMemory::allocate(facts_.device, bytes).value();
    EXPECT_EQ(cudaMemcpy(memory.data(), data, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    return memory;
  };
  const DeviceMemory q = device_copy(zeros.data(), batch * dim * 4),
                     k = device_copy(zeros.data(), zeros.size() * 4),
                     v = device_copy(values.data(), values.size() * 4),
                     o = device_copy(zeros.data(), batch * dim * 4),
                     lse = device_copy(zeros.data(), batch * 4);
  const std::int32_t none[batch] = {0, 0, 0, 0};
  const DeviceMemory lengths = device_copy(none, sizeof none);
  const DeviceMemory workspace =
      DeviceMemory::allocate(facts_.device, planned.value().workspace_bytes).value();
  const auto view = [&](const DeviceMemory& memory, DType dtype, std::int64_t rows, std::int64_t width) {
    return packed_view(memory.data(), dtype, {batch, 1, rows, width}, Layout::bhsd, facts_.device);
  };
  Tensors t;
  t.q = view(q, DType::f32, 1, dim);
  t.k = view(k, DType::f32, keys, dim);
  t.v = view(v, DType::f32, keys, dim);
  t.o = view(o, DType::f32, 1, dim);
  t.lse = view(lse, DType::f32, 1, 1);
  t.kv_lengths = view(lengths, DType::i32, 1, 1);

  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  const Status enqueued = runmax::run(planned.value(), t, {workspace.data(), workspace.bytes()}, stream);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_TRUE(enqueued.ok()) << enqueued.message();
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (const auto& used :
       {std::vector<std::int32_t>{128, 37, 0, 1}, {5, 0, 0, 3}, {0, 0, 0, 0}, {129, 2, -1, 128}}) {
    ASSERT_EQ(cudaMemcpy(lengths.data(), used.data(), 16, cudaMemcpyHostToDevice), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    float out[batch * dim], log_sum[batch];
    ASSERT_EQ(cudaMemcpy(out, o.data(), sizeof out, cudaMemcpyDeviceToHost), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(log_sum, lse.data(), sizeof log_sum, cudaMemcpyDeviceToHost), cudaSuccess);
    for (std::size_t b = 0; b < batch; ++b) {
      const float got = out[b * dim];
      if (used[b] < 0 || used[b] > keys) {
        EXPECT_TRUE(std::isnan(got) && std::isnan(log_sum[b])) << used[b];
      } else if (used[b] == 0) {
        EXPECT_TRUE(got == 0 && std::isinf(log_sum[b]) && log_sum[b] < 0);
      } else {
        EXPECT_NEAR(got, (used[b] - 1) / 2.0, 1e-4) << used[b];
        EXPECT_NEAR(log_sum[b], std::log(used[b]), 1e-5) << used[b];
      }
    }
  }
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace runmax
