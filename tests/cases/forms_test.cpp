// Packed, paged and partly used batches: kinds 03 to 07, 24, 25 and 37, and what kinds 14, 16 and 43 say of
// every path.
#include <sys/mman.h>

#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

HostTensor integers(std::array<std::int64_t, 4> shape, std::vector<float> values) {
  HostTensor tensor = packed_tensor(shape, std::move(values));
  tensor.dtype = DType::i32;
  return tensor;
}
HostTensor lengths(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return integers({count, 1, 1, 1}, std::move(values));
}
HostTensor page_table(std::int64_t rows, std::vector<float> values) {
  const auto columns = static_cast<std::int64_t>(values.size()) / rows;
  return integers({rows, 1, 1, columns}, std::move(values));
}

// A pool of one KV head whose pages are `pages` in logical order, scattered so that logical page c lies at
// order[c]; value(position) in every channel, NaN in pages and rows that hold no key.
template <class Value>
HostTensor pool(std::int64_t pages, std::int64_t page_size, std::int64_t dim, const std::vector<float>& order,
                std::int64_t keys, Value value) {
  HostTensor tensor = constant({pages, 1, page_size, dim}, not_a_number);
  for (std::int64_t j = 0; j < keys; ++j)
    for (std::int64_t c = 0; c < dim; ++c)
      tensor.at(static_cast<std::int64_t>(order[static_cast<std::size_t>(j / page_size)]), 0, j % page_size,
                c) = value(j);
  return tensor;
}

// One sequence in pages of a shuffled pool with two pages to spare: Q and K zero, V as value(position).
template <class Value>
Operands one_paged(const Problem& p, Value value) {
  const std::int64_t used = (p.kv_len + p.page_size - 1) / p.page_size;
  std::vector<float> order(static_cast<std::size_t>(used));
  // 5 and the number of pages have no common divisor: a permutation of some of them.
  std::int64_t pages = used + 2;
  while (pages % 5 == 0) ++pages;
  for (std::int64_t c = 0; c < used; ++c)
    order[static_cast<std::size_t>(c)] = static_cast<float>((c * 5 + 3) % pages);
  Operands in;
  in.q = constant(q_shape(p), 0);
  in.k = pool(pages, p.page_size, p.head_dim, order, p.kv_len, [](std::int64_t) { return 0.0f; });
  in.v = pool(pages, p.page_size, p.value_dim, order, p.kv_len, value);
  in.page_table = page_table(1, order);
  return in;
}

float position(std::int64_t j) { return static_cast<float>(j); }

TEST_P(Case, O006_MemoryBeyondTheLengthMayHoldAnythingInEveryType) {
  for (const char* type : {"f16", "f32", "bf16"})
    for (const float garbage : {not_a_number, infinity}) {
      const Problem p = problem("q1:k8:d64:scale=0.125:seqused:" + std::string(type));
      Operands in{constant(q_shape(p), 0.5f), constant(k_shape(p), garbage), constant(v_shape(p), garbage)};
      for (std::int64_t c = 0; c < 64; ++c) in.k.at(0, 0, 0, c) = 0.5f, in.v.at(0, 0, 0, c) = 0.25f;
      in.kv_lengths = lengths({1});
      const auto answer = run(p, in);
      if (answer) expect_all(*answer, 0.25, 0.25, 2);
    }
}

TEST_P(Case, O007_KeysBeyondALengthAreNotRead) {
  const Problem p = problem("b2:q1:k2:d1:scale=1:seqused");
  Operands in{constant(q_shape(p), 1), packed_tensor(k_shape(p), {0, not_a_number, 0, 0}),
              packed_tensor(v_shape(p), {7, not_a_number, 2, 6})};
  in.kv_lengths = lengths({1, 2});
  const auto answer = run(p, in);
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 7, 7);
  expect_lse(*answer, 0, 0, 0, 0);
  expect_row(*answer, 1, 0, 0, 4, 7);
}

TEST_P(Case, O011_PagedBf16WithVAllOnesIsExactlyOne) {
  for (const int n : {1, 15, 17, 255, 257}) {
    const Problem p = problem("q1:k" + std::to_string(n) + ":d128:bf16:paged=16");
    const auto answer = run(p, one_paged(p, [](std::int64_t) { return 1.0f; }));
    if (!answer) continue;
    for (std::int64_t c = 0; c < 128; ++c) ASSERT_EQ(answer->o.at(0, 0, 0, c), 1.0f) << n;
    expect_lse(*answer, 0, 0, 0, std::log(n));
  }
}

TEST_P(Case, O015_APagedEmptyRowHasAnLseOfMinusInfinityAndMergesAsNothing) {
  const Problem p = problem("q17:k16:d8:causal:paged=16");
  const auto answer = run(p, one_paged(p, position));
  if (!answer) return;
  expect_empty_row(*answer, 0, 0, 0);
  expect_row(*answer, 0, 0, 16, 7.5, 15);
  std::vector<float> o(8, -1), part(8, 3), lse{-1}, zero{0};
  const auto view = [](const float* data, std::int64_t dim) {
    return packed_view(data, DType::f32, {1, 1, 1, dim}, Layout::bhsd);
  };
  ASSERT_TRUE(merge(view(answer->o.storage.data(), 8), view(answer->lse.storage.data(), 1),
                    view(part.data(), 8), view(zero.data(), 1), view(o.data(), 8), view(lse.data(), 1))
                  .ok());
  for (const float value : o) EXPECT_EQ(value, 3.0f);
  EXPECT_EQ(lse[0], 0.0f);
}

TEST_P(Case, O019_ASequenceMayHaveNoQueriesNoKeysOrNeither) {
  // cu_q = [0,0,3], cu_k = [0,2,5].
  const Problem p = problem("hq4:hk1:varlen=0/2,3/3:d256");
  Operands in{constant(q_shape(p), 0), constant(k_shape(p), 0), row_indices(v_shape(p))};
  for (std::int64_t c = 0; c < 256; ++c) in.k.at(0, 0, 0, c) = in.v.at(0, 0, 1, c) = not_a_number;
  const auto answer = run(p, in);
  if (answer) expect_all(*answer, 3, 4, std::log(3.0));

  const Problem none = problem("h2:varlen=2/0,0/0,1/4,0/3,2/0:d8");
  const auto mixed =
      run(none, Operands{constant(q_shape(none), 0), constant(k_shape(none), 0), row_indices(v_shape(none))});
  if (!mixed) return;
  for (std::int64_t h = 0; h < 2; ++h) {
    for (const std::int64_t i : {0, 1, 3, 4}) expect_empty_row(*mixed, 0, h, i);
    expect_row(*mixed, 0, h, 2, 1.5, 6);
  }
}

TEST_P(Case, O018_SequencesWithoutAnyWorkSucceed) {
  for (const char* text :
       {"h2:varlen=0/5,0/0:d8", "h2:varlen=0/0:d8", "b3:q0:k9:d8:seqused", "b2:q0:k9:d8:paged=4"}) {
    const Problem p = problem(text);
    Operands in{constant(q_shape(p), 0), constant(k_shape(p), 0), constant(v_shape(p), 0)};
    if (p.seqused) in.kv_lengths = lengths({9, 0, 3});
    if (p.page_size > 0) {
      in.k = in.v = constant({6, 1, 4, 8}, 0);
      in.page_table = page_table(2, {0, 1, 2, 3, 4, 5});
    }
    const auto answer = run(p, in);
    if (!answer) continue;
    EXPECT_EQ(answer->o.elements(), 0) << text;
  }
}

// Memory that takes no room until it is touched.
class Sparse {
 public:
  explicit Sparse(std::size_t bytes) : bytes_(bytes) {
    void* at =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) data_ = static_cast<std::uint16_t*>(at);
  }
  ~Sparse() {
    if (data_) munmap(data_, bytes_);
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  std::uint16_t* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::uint16_t* data_ = nullptr;
};

// 4.3 GB of addresses each for K and V, of which one page is used.
TEST_P(Case, O021_APageFarIntoThePoolIsAddressedRight) {
  if (!on_cpu()) GTEST_SKIP() << "host memory that is not touched takes no room; device memory does";
  constexpr std::int64_t pages = 131073, page_size = 16, heads = 8, dim = 128;
  const Problem p = problem("hq8:hk8:q1:k16:d128:bf16:paged=16");
  const Result<Plan> planned = plan(p, facts(), options());
  if (!planned.ok()) GTEST_SKIP() << planned.status().message();
  const Sparse k(pages * heads * page_size * dim * 2), v(pages * heads * page_size * dim * 2);
  if (!k.data() || !v.data()) GTEST_SKIP() << "no 8.6 GB of address space";
  constexpr std::uint16_t one = 0x3f80, seven = 0x40e0;
  std::fill_n(v.data() + (pages - 1) * heads * page_size * dim, heads * page_size * dim, one);
  // What a 32-bit offset would take instead: the pages 2^31, 2^32 elements and 2^31 bytes before it.
  for (const std::int64_t wrong : {pages - 1 - 131072, pages - 1 - 65536})
    std::fill_n(v.data() + wrong * heads * page_size * dim, heads * page_size * dim, seven);
  std::vector<std::uint16_t> q(heads * dim, 0), o(heads * dim, 0xffff);
  std::vector<float> lse(heads, not_a_number);
  std::vector<std::int32_t> table{static_cast<std::int32_t>(pages - 1)};
  Tensors t;
  t.q = packed_view(q.data(), DType::bf16, {1, heads, 1, dim}, Layout::bhsd);
  t.o = packed_view(o.data(), DType::bf16, {1, heads, 1, dim}, Layout::bhsd);
  t.k = packed_view(k.data(), DType::bf16, {pages, heads, page_size, dim}, Layout::bhsd);
  t.v = packed_view(v.data(), DType::bf16, {pages, heads, page_size, dim}, Layout::bhsd);
  t.lse = packed_view(lse.data(), DType::f32, {1, heads, 1, 1}, Layout::bhsd);
  t.page_table = packed_view(table.data(), DType::i32, {1, 1, 1, 1}, Layout::bhsd);
  std::vector<unsigned char> workspace(planned.value().workspace_bytes + 64);
  const std::size_t skip = (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64) % 64;
  const Status status =
      runmax::run(planned.value(), t, {workspace.data() + skip, planned.value().workspace_bytes});
  ASSERT_TRUE(status.ok()) << status.message();
  for (const std::uint16_t bits : o) ASSERT_EQ(bits, one);
  for (const float value : lse) ASSERT_NEAR(value, std::log(16.0), 1e-5);
}

// Row stride 2^24 elements: row 128 lies 2^31 elements behind row 0.
TEST_P(Case, O022_StridesTimesIndicesAre64Bit) {
  if (!on_cpu()) GTEST_SKIP() << "host memory that is not touched takes no room; device memory does";
  constexpr std::int64_t rows_of_v = 129, stride = std::int64_t{1} << 24, dim = 64;
  const Problem p = problem("q1:k129:d64:f16");
  const Result<Plan> planned = plan(p, facts(), options());
  if (!planned.ok()) GTEST_SKIP() << planned.status().message();
  const Sparse v(static_cast<std::size_t>(((rows_of_v - 1) * stride + dim) * 2));
  if (!v.data()) GTEST_SKIP() << "no 4.3 GB of address space";
  constexpr std::uint16_t one = 0x3c00;
  for (std::int64_t j = 0; j < rows_of_v; ++j) std::fill_n(v.data() + j * stride, dim, one);
  std::vector<std::uint16_t> q(dim, 0), k(rows_of_v * dim, 0), o(dim, 0xffff);
  Tensors t;
  t.q = packed_view(q.data(), DType::f16, {1, 1, 1, dim}, Layout::bhsd);
  t.o = packed_view(o.data(), DType::f16, {1, 1, 1, dim}, Layout::bhsd);
  t.k = packed_view(k.data(), DType::f16, {1, 1, rows_of_v, dim}, Layout::bhsd);
  t.v = packed_view(v.data(), DType::f16, {1, 1, rows_of_v, dim}, Layout::bhsd);
  t.v.strides = {0, 0, stride, 1};
  std::vector<unsigned char> workspace(planned.value().workspace_bytes + 64);
  const std::size_t skip = (64 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 64) % 64;
  const Status status =
      runmax::run(planned.value(), t, {workspace.data() + skip, planned.value().workspace_bytes});
  ASSERT_TRUE(status.ok()) << status.message();
  for (const std::uint16_t bits : o) ASSERT_EQ(bits, one);
}

TEST_P(Case, O043_EveryFormGivesTheSameWindow) {
  for (const int splits : {1, 4})
    for (const char* form : {"", ":paged=2", ":seqused"}) {
      const Problem p = problem("q8:d4:window=3,0" + std::string(form));
      Operands in = p.page_size > 0 ? one_paged(p, position) : mean_index(p);
      if (p.seqused) in.kv_lengths = lengths({8});
      PlanOptions split = options();
      split.num_splits = splits;
      const auto answer = run(p, in, split);
      if (!answer) continue;
      expect_row(*answer, 0, 0, 7, 5.5, 7);
      expect_lse(*answer, 0, 0, 7, 1.386294);
    }
}

TEST_P(Case, O049_TheSameLseOnPackedAndPagedPaths) {
  const Problem packed = problem("h2:varlen=1/8,3/8:d8"), paged = problem("q2:k8:d8:paged=3");
  const auto of_packed = run(packed, equal_scores(packed, constant(v_shape(packed), 1)));
  if (of_packed) expect_all(*of_packed, 1, 1, 2.079442);
  const auto of_paged = run(paged, one_paged(paged, [](std::int64_t) { return 1.0f; }));
  if (of_paged) expect_all(*of_paged, 1, 1, 2.079442);
}

// The status of a run that must fail, and nothing written.
Status failure_of(const std::string& kernel, const DeviceFacts& facts, const Problem& p, const Operands& in) {
  const Result<Plan> planned = plan(p, facts, {.kernel = kernel});
  if (!planned.ok()) return Status();
  Status failed;
  Operands typed = in;
  for (HostTensor* tensor : {&typed.q, &typed.k, &typed.v}) tensor->dtype = p.dtype;
  HostTensor o = packed_tensor(o_shape(p));
  o.dtype = p.dtype;
  const Result<Answer> answer =
      check::run_trapped(facts.device, planned.value().workspace_bytes, typed, o, packed_tensor(lse_shape(p)),
                         [&](const Tensors& tensors, Workspace workspace) {
                           failed = runmax::run(planned.value(), tensors, workspace, nullptr);
                           return Status();
                         });
  EXPECT_TRUE(answer.ok());
  if (!answer.ok()) return failed;
  for (const HostTensor* output : {&answer.value().o, &answer.value().lse})
    for (const float value : output->storage) EXPECT_TRUE(std::isnan(value)) << "something was written";
  EXPECT_EQ(failed.code(), StatusCode::invalid_argument) << failed.message();
  return failed;
}

// On a GPU the host cannot look at values: what they break is NaN, never an answer made from other memory.
void expect_nan(const Answer& answer, std::int64_t b) {
  for (std::int64_t c = 0; c < answer.o.shape[3]; ++c) EXPECT_TRUE(std::isnan(answer.o.at(b, 0, 0, c))) << c;
  EXPECT_TRUE(std::isnan(answer.lse.at(b, 0, 0)));
}

TEST_P(Case, O069_APageIndexOutsideThePoolIsAnErrorThatNamesItAndNothingIsWritten) {
  const Problem p = problem("q1:k64:d8:paged=16:seqused");
  if (!plan(p, facts(), options()).ok()) GTEST_SKIP() << "pages are not served";
  Operands in{constant(q_shape(p), 0), constant({5, 1, 16, 8}, 0), constant({5, 1, 16, 8}, 1)};
  in.kv_lengths = lengths({20});
  for (const auto& [second, shown] : {std::pair(12.0f, "12"), std::pair(-1.0f, "-1"), std::pair(5.0f, "5")}) {
    in.page_table = page_table(1, {4, second, 0, 0});
    if (!on_cpu()) {
      const auto answer = run(p, in);
      if (answer) expect_nan(*answer, 0);
      continue;
    }
    EXPECT_EQ(failure_of(GetParam(), facts(), p, in).message(),
              "page_table: row 0, column 1 must be at least 0 and below 5, the number of pages, got " +
                  std::string(shown));
  }
  // Beyond the used part the table may hold anything.
  in.page_table = page_table(1, {4, 2, 12, -1});
  const auto answer = run(p, in);
  if (answer) expect_all(*answer, 1, 1, std::log(20.0));
}

TEST_P(Case, O070_ALengthBeyondTheTablesCapacityIsAnError) {
  const Problem p = problem("q1:k33:d8:paged=16");
  if (!plan(p, facts(), options()).ok()) GTEST_SKIP() << "pages are not served";
  Operands in{constant(q_shape(p), 0), constant({5, 1, 16, 8}, 0), constant({5, 1, 16, 8}, 1)};
  in.page_table = page_table(1, {4, 2});
  EXPECT_NE(failure_of(GetParam(), facts(), p, in).message().find("33 > 32"), std::string::npos);

  const Problem used = problem("b2:q1:k64:d8:paged=16:seqused");
  in.q = constant(q_shape(used), 0);
  in.page_table = page_table(2, {4, 2, 3, 1});
  in.kv_lengths = lengths({32, 33});
  if (!on_cpu()) {
    const auto answer = run(used, in);
    if (!answer) return;
    expect_row(*answer, 0, 0, 0, 1, 1);
    expect_nan(*answer, 1);
    return;
  }
  const std::string message = failure_of(GetParam(), facts(), used, in).message();
  EXPECT_EQ(message.find("page_table: row 1 "), 0u) << message;
  EXPECT_NE(message.find("33 > 32"), std::string::npos) << message;
}

TEST_P(Case, LengthsOutsideOfTheirBoundAreAnErrorThatNamesThem) {
  const Problem p = problem("b2:q1:k8:d8:seqused");
  if (!plan(p, facts(), options()).ok()) GTEST_SKIP() << "lengths are not served";
  Operands in = equal_scores(p, constant(v_shape(p), 1));
  for (const auto& [length, shown] : {std::pair(9.0f, "9"), std::pair(-1.0f, "-1")}) {
    in.kv_lengths = lengths({8, length});
    if (!on_cpu()) {
      const auto answer = run(p, in);
      if (!answer) return;
      expect_row(*answer, 0, 0, 0, 1, 1);
      expect_nan(*answer, 1);
      continue;
    }
    EXPECT_EQ(
        failure_of(GetParam(), facts(), p, in).message(),
        "kv_lengths: batch element 1 must be at least 0 and at most its kv_len 8, got " + std::string(shown));
  }
  in.kv_lengths = integers({2, 1, 1, 2}, {1, 1, 1, 1});
  EXPECT_EQ(failure_of(GetParam(), facts(), p, in).message(),
            "kv_lengths: shape (batch, heads, length, dim) must be (2, 1, 1, 1), got (2, 1, 1, 2)");
  in.kv_lengths = lengths({8, 8});
  in.kv_lengths.dtype = DType::f32;
  EXPECT_EQ(failure_of(GetParam(), facts(), p, in).message(), "kv_lengths: dtype must be i32, got f32");
  in.kv_lengths = {};
  EXPECT_NE(failure_of(GetParam(), facts(), p, in).message().find("kv_lengths: shape"), std::string::npos);
  // A table that the problem does not use is a mistake too.
  const Problem dense = problem("b2:q1:k8:d8");
  in.kv_lengths = lengths({8, 8});
  EXPECT_NE(failure_of(GetParam(), facts(), dense, in).message().find("kv_lengths: was given"),
            std::string::npos);
}

TEST_P(Case, O071_EveryPageSizeWorks) {
  for (const int page : {1, 2, 3, 16, 19, 64, 128, 256, 1024})
    for (const int queries : {1, 40}) {
      const Problem p = problem("q" + std::to_string(queries) + ":k100:d8:paged=" + std::to_string(page));
      const auto answer = run(p, one_paged(p, position));
      if (answer) expect_all(*answer, 49.5, 99, 4.605170);
    }
}

TEST(CaseRefused, O072_APageSizeIsAtLeastOneAtEveryEntry) {
  const auto message = [](const std::string& text) { return parse_problem(text).status().message(); };
  EXPECT_NE(message("q1:k8:paged=-1").find("paged"), std::string::npos) << message("q1:k8:paged=-1");
  EXPECT_NE(message("q1:k8:paged=0").find("paged"), std::string::npos) << message("q1:k8:paged=0");
  Problem p = problem("q1:k8:d8");
  p.page_size = -1;
  EXPECT_EQ(validate(p).message(), "page_size: must be at least 0, got -1");
}

TEST_P(Case, O103_OneQueryASequenceAllowsEmptySequences) {
  const Problem p = problem("hq9:hk3:varlen=1/4,0/0,1/2:d64:causal");
  HostTensor v = constant(v_shape(p), 0);
  for (std::int64_t h = 0; h < 3; ++h)
    for (std::int64_t j = 0; j < 6; ++j)
      for (std::int64_t c = 0; c < 64; ++c) v.at(0, h, j, c) = static_cast<float>(j < 4 ? j : j - 4);
  const auto answer = run(p, equal_scores(p, v));
  if (!answer) return;
  for (std::int64_t h = 0; h < 9; ++h) {
    expect_row(*answer, 0, h, 0, 1.5, 3);
    expect_lse(*answer, 0, h, 0, 1.386294);
    expect_row(*answer, 0, h, 1, 0.5, 3);
    expect_lse(*answer, 0, h, 1, 0.693147);
  }
}

TEST(CaseRefused, O104_AMaximumThatIsTooSmallIsAnError) {
  Problem p = problem("varlen=1/10:d8");
  EXPECT_EQ(p.kv_len, 10);
  p.kv_len = 8;
  EXPECT_EQ(validate(p).message(), "varlen: query_len and kv_len must be the largest lengths of the batch");
}

TEST_P(Case, O105_EachTensorIsAddressedWithItsOwnHeadsAndStrides) {
  const Problem p = problem("hq4:hk2:varlen=2/2,3/3:d8:dv4");
  HostTensor v = constant(v_shape(p), 2);
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t j = 0; j < 2; ++j)
      for (std::int64_t c = 0; c < 4; ++c) v.at(0, h, j, c) = 1;
  // (rows, heads, dim) as packed sequences usually lie.
  HostTensor bshd = constant(v_shape(p), 0);
  bshd.strides = packed_view(nullptr, DType::f32, bshd.shape, Layout::bshd).strides;
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t j = 0; j < 5; ++j)
      for (std::int64_t c = 0; c < 4; ++c) bshd.at(0, h, j, c) = v.at(0, h, j, c);
  for (const HostTensor& values : {v, bshd}) {
    const auto answer = run(p, equal_scores(p, values));
    if (!answer) return;
    for (std::int64_t h = 0; h < 4; ++h)
      for (std::int64_t i = 0; i < 5; ++i) expect_row(*answer, 0, h, i, i < 2 ? 1 : 2, 2);
  }
}

// One call takes sizes and form from the tensors: pages and lengths by their tables, sequences by the
// options.
TEST(CaseOneCall, AttentionTakesTheFormFromItsTensors) {
  const auto f32 = [](std::vector<float>& data, std::array<std::int64_t, 4> shape) {
    return packed_view(data.data(), DType::f32, shape, Layout::bhsd);
  };
  std::vector<float> q(2 * 4, 0), k(3 * 2 * 4, 0), v(3 * 2 * 4, not_a_number), o(2 * 4, not_a_number),
      lse(2, not_a_number);
  // Pages of 2 keys: element 0 has key 0 in page 2, element 1 keys 0, 1, 2 in pages 0 and 1.
  std::vector<std::int32_t> table{2, -5, 0, 1}, used{1, 3};
  for (int c = 0; c < 4; ++c) {
    v[static_cast<std::size_t>(2 * 8 + c)] = 7;
    v[static_cast<std::size_t>(c)] = 1, v[static_cast<std::size_t>(4 + c)] = 2,
    v[static_cast<std::size_t>(8 + c)] = 6;
  }
  Tensors t;
  t.q = f32(q, {2, 1, 1, 4});
  t.k = f32(k, {3, 1, 2, 4});
  t.v = f32(v, {3, 1, 2, 4});
  t.o = f32(o, {2, 1, 1, 4});
  t.lse = f32(lse, {2, 1, 1, 1});
  t.page_table = packed_view(table.data(), DType::i32, {2, 1, 1, 2}, Layout::bhsd);
  t.kv_lengths = packed_view(used.data(), DType::i32, {2, 1, 1, 1}, Layout::bhsd);
  const Status paged = attention(t);
  ASSERT_TRUE(paged.ok()) << paged.message();
  EXPECT_EQ(o, (std::vector<float>{7, 7, 7, 7, 3, 3, 3, 3}));

  Tensors packed;
  std::vector<float> values(4 * 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / 4);
  packed.q = f32(q, {1, 1, 2, 4});
  packed.k = f32(k, {1, 1, 4, 4});
  packed.v = f32(values, {1, 1, 4, 4});
  packed.o = f32(o, {1, 1, 2, 4});
  AttentionOptions options;
  options.options.varlen = {{1, 1}, {1, 3}};
  const Status sequences = attention(packed, options);
  ASSERT_TRUE(sequences.ok()) << sequences.message();
  EXPECT_EQ(o, (std::vector<float>{0, 0, 0, 0, 2, 2, 2, 2}));
  packed.k = f32(k, {1, 1, 5, 4});
  EXPECT_EQ(attention(packed, options).message(),
            "k: shape (batch, heads, length, dim) must be (1, 1, 4, 4), got (1, 1, 5, 4)");
}

TEST(CaseWork, O128_O129_FlopsAreThoseOfTheVisibleKeysAndTrueLengths) {
  EXPECT_EQ(forward_flops(problem("q1024:d64")), 268435456.0);
  EXPECT_EQ(forward_flops(problem("q1024:d64:causal")), 134348800.0);
  EXPECT_EQ(forward_flops(problem("varlen=1,1000:d64")), 256000256.0);
}

}  // namespace
}  // namespace runmax::kit
