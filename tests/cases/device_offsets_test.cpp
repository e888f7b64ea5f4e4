// Kind 07 in a GPU's memory: offsets of 2^31 elements and more, into every operand and into a pool of pages.
#include <cuda_runtime_api.h>

#include <cstring>

#include "kit/drawn.hpp"
#include "runtime/device_memory.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

// Why the memory is not there; empty if it is.
std::string lacks(const DeviceFacts& facts, std::size_t bytes) {
  const Result<DeviceFacts> now = device_facts(facts.device);
  if (now.ok() && now.value().free_bytes >= static_cast<std::int64_t>(bytes) + (std::int64_t{1} << 30))
    return {};
  return "the device has no " + std::to_string(bytes >> 20) + " MiB free";
}

// Rows of Q, K, V and O stand side by side, 2^24 elements apart: row 128 lies 2^31 elements behind row 0.
TEST_P(Case, O022_StridesTimesIndicesAre64BitInDeviceMemory) {
  if (on_cpu()) GTEST_SKIP() << "a case of its own";
  constexpr std::int64_t rows = 129, dim = 64, stride = std::int64_t{1} << 24;
  constexpr std::size_t width = dim * sizeof(float), pitch = stride * sizeof(float),
                        bytes = (rows - 1) * pitch + 4 * width;
  if (const std::string why = lacks(facts(), bytes); !why.empty()) GTEST_SKIP() << why;
  const Problem p = problem("q129:k129:d64");
  const Operands in = drawn(p);
  const auto want = run(p, in);
  if (!want) return;

  const Result<DeviceMemory> memory = DeviceMemory::allocate(facts().device, bytes);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  ASSERT_EQ(cudaMemset(memory.value().data(), 0xff, bytes), cudaSuccess);
  float* const base = static_cast<float*>(memory.value().data());
  const auto view = [&](std::int64_t place) {
    TensorView strided =
        packed_view(base + place * dim, DType::f32, {1, 1, rows, dim}, Layout::bhsd, facts().device);
    strided.strides = {0, 0, stride, 1};
    return strided;
  };
  Tensors t;
  t.q = view(0), t.k = view(1), t.v = view(2), t.o = view(3);
  for (const auto& [tensor, host] : {std::pair(&t.q, &in.q), std::pair(&t.k, &in.k), std::pair(&t.v, &in.v)})
    ASSERT_EQ(
        cudaMemcpy2D(tensor->data, pitch, host->storage.data(), width, width, rows, cudaMemcpyHostToDevice),
        cudaSuccess);
  const Result<DeviceMemory> workspace = DeviceMemory::allocate(facts().device, want->plan.workspace_bytes);
  ASSERT_TRUE(workspace.ok()) << workspace.status().message();
  const Status status = runmax::run(want->plan, t, {workspace.value().data(), want->plan.workspace_bytes});
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<float> o(rows * dim);
  ASSERT_EQ(cudaMemcpy2D(o.data(), width, t.o.data, pitch, width, rows, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(std::memcmp(o.data(), want->o.storage.data(), o.size() * sizeof(float)), 0);
}

// 4.3 GB each for K and V, of which the last page is used.
TEST_P(Case, O021_APageFarIntoThePoolIsAddressedRightInDeviceMemory) {
  if (on_cpu()) GTEST_SKIP() << "a case of its own";
  constexpr std::int64_t pages = 131073, page_size = 16, heads = 8, dim = 128,
                         page_elements = heads * page_size * dim;
  constexpr std::size_t pool_bytes = pages * page_elements * 2;
  const Result<Plan> planned = plan(problem("hq8:hk8:q1:k16:d128:bf16:paged=16"), facts(), options());
  if (!planned.ok()) GTEST_SKIP() << planned.status().message();
  if (const std::string why = lacks(facts(), 2 * pool_bytes); !why.empty()) GTEST_SKIP() << why;

  const auto memory = [&](std::size_t bytes, int fill) {
    Result<DeviceMemory> made = DeviceMemory::allocate(facts().device, bytes);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (bytes > 0) {
      EXPECT_EQ(cudaMemset(made.value().data(), fill, bytes), cudaSuccess);
    }
    return std::move(made.value());
  };
  constexpr std::uint16_t one = 0x3f80;
  // Everywhere else V is 3.0: the bytes 0x40.
  const DeviceMemory k = memory(pool_bytes, 0), v = memory(pool_bytes, 0x40), q = memory(heads * dim * 2, 0),
                     o = memory(heads * dim * 2, 0xff), lse = memory(heads * sizeof(float), 0xff),
                     table = memory(sizeof(std::int32_t), 0),
                     workspace = memory(planned.value().workspace_bytes, 0xff);
  const std::vector<std::uint16_t> ones(page_elements, one);
  ASSERT_EQ(cudaMemcpy(static_cast<std::uint16_t*>(v.data()) + (pages - 1) * page_elements, ones.data(),
                       page_elements * 2, cudaMemcpyHostToDevice),
            cudaSuccess);
  const std::int32_t last = pages - 1;
  ASSERT_EQ(cudaMemcpy(table.data(), &last, sizeof last, cudaMemcpyHostToDevice), cudaSuccess);
  const auto view = [&](const DeviceMemory& of, DType dtype, std::array<std::int64_t, 4> shape) {
    return packed_view(of.data(), dtype, shape, Layout::bhsd, facts().device);
  };
  Tensors t;
  t.q = view(q, DType::bf16, {1, heads, 1, dim});
  t.o = view(o, DType::bf16, {1, heads, 1, dim});
  t.k = view(k, DType::bf16, {pages, heads, page_size, dim});
  t.v = view(v, DType::bf16, {pages, heads, page_size, dim});
  t.lse = view(lse, DType::f32, {1, heads, 1, 1});
  t.page_table = view(table, DType::i32, {1, 1, 1, 1});
  const Status status = runmax::run(planned.value(), t, {workspace.data(), planned.value().workspace_bytes});
  ASSERT_TRUE(status.ok()) << status.message();
  std::vector<std::uint16_t> got(heads * dim);
  ASSERT_EQ(cudaMemcpy(got.data(), o.data(), got.size() * 2, cudaMemcpyDeviceToHost), cudaSuccess);
  for (const std::uint16_t bits : got) ASSERT_EQ(bits, one);
}

}  // namespace
}  // namespace runmax::kit
