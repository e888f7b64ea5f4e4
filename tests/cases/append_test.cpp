// Kind 44: appending to a KV cache, dense and paged, and rotary position embedding.
#include "runmax/append.hpp"

#include <complex>

#include "check/host_tensor.hpp"
#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

// A tensor's elements in memory, with guard bytes on both sides.
struct Stored {
  HostTensor host;
  std::vector<unsigned char> memory;

  static constexpr std::size_t guard = 64;
  explicit Stored(HostTensor tensor) : host(std::move(tensor)) {
    const std::vector<unsigned char> bytes = check::encode(host);
    memory.assign(bytes.size() + 2 * guard, 0xa5);
    std::copy(bytes.begin(), bytes.end(), memory.begin() + guard);
  }
  TensorView view() { return host.view(memory.data() + guard, {}); }
  HostTensor read() const {
    HostTensor now = host;
    check::decode(memory.data() + guard, now);
    return now;
  }
  bool guards_intact() const {
    const auto is_guard = [](unsigned char byte) { return byte == 0xa5; };
    return std::all_of(memory.begin(), memory.begin() + guard, is_guard) &&
           std::all_of(memory.end() - guard, memory.end(), is_guard);
  }
};

HostTensor typed(HostTensor tensor, DType dtype) {
  tensor.dtype = dtype;
  return tensor;
}
HostTensor counts(const std::vector<float>& values) {
  return typed(packed_tensor({static_cast<std::int64_t>(values.size()), 1, 1, 1}, values), DType::i32);
}

// Distinct numbers that every type holds.
HostTensor numbered(std::array<std::int64_t, 4> shape, DType dtype) {
  HostTensor tensor = packed_tensor(shape);
  for (std::size_t i = 0; i < tensor.storage.size(); ++i)
    tensor.storage[i] = static_cast<float>(i % 251) / 8 - 12;
  return typed(tensor, dtype);
}

struct Fixture {
  Stored new_k, new_v, k, v, lengths;
  AppendTensors tensors() {
    AppendTensors t;
    t.new_k = new_k.view();
    t.new_v = new_v.view();
    t.k = k.view();
    t.v = v.view();
    t.kv_lengths = lengths.view();
    return t;
  }
  bool guards_intact() const { return k.guards_intact() && v.guards_intact(); }
};

Fixture dense(DType dtype, std::int64_t capacity, const std::vector<float>& have, std::int64_t more) {
  const auto batch = static_cast<std::int64_t>(have.size());
  return {Stored(numbered({batch, 2, more, 6}, dtype)), Stored(numbered({batch, 2, more, 4}, dtype)),
          Stored(typed(constant({batch, 2, capacity, 6}, not_a_number), dtype)),
          Stored(typed(constant({batch, 2, capacity, 4}, not_a_number), dtype)), Stored(counts(have))};
}

TEST(Append, O123_BeyondTheCapacityIsAnErrorAndNothingIsWritten) {
  Fixture f = dense(DType::f32, 16, {3, 16}, 1);
  const std::vector<unsigned char> k = f.k.memory, v = f.v.memory;
  const Status status = append_kv(f.tensors());
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(status.message(),
            "kv_lengths: batch element 1 has 16 keys and gets 1, more than its capacity: 17 > 16");
  EXPECT_EQ(f.k.memory, k) << "element 0, which has room, was written";
  EXPECT_EQ(f.v.memory, v);
}

TEST(Append, RowsGoBehindEachElementsLengthAndNowhereElse) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    Fixture f = dense(dtype, 9, {0, 4, 7}, 2);
    const Status status = append_kv(f.tensors());
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(f.guards_intact());
    const HostTensor k = f.k.read(), v = f.v.read();
    const std::int64_t have[] = {0, 4, 7};
    for (std::int64_t b = 0; b < 3; ++b)
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t j = 0; j < 9; ++j)
          for (std::int64_t c = 0; c < 6; ++c) {
            const std::int64_t i = j - have[b];
            const bool is_new = i >= 0 && i < 2;
            ASSERT_TRUE(is_new ? k.at(b, h, j, c) == f.new_k.host.at(b, h, i, c)
                               : std::isnan(k.at(b, h, j, c)));
            if (c >= 4) continue;
            ASSERT_TRUE(is_new ? v.at(b, h, j, c) == f.new_v.host.at(b, h, i, c)
                               : std::isnan(v.at(b, h, j, c)));
          }
  }
}

TEST(Append, PagesAndStridesAreWhereTheTableSays) {
  // Pages of 4 in a pool of 7 stored (page, row, head, dim); lengths 3 and 6, of 5 new rows 5 and 2 are
  // taken.
  const auto bshd = [](HostTensor tensor) {
    tensor.strides = packed_view(nullptr, tensor.dtype, tensor.shape, Layout::bshd).strides;
    return tensor;
  };
  Stored new_k(numbered({2, 3, 5, 6}, DType::bf16)), new_v(numbered({2, 3, 5, 4}, DType::bf16));
  Stored k(bshd(typed(constant({7, 3, 4, 6}, not_a_number), DType::bf16)));
  Stored v(bshd(typed(constant({7, 3, 4, 4}, not_a_number), DType::bf16)));
  Stored have(counts({3, 6})), more(counts({5, 2}));
  Stored table(typed(packed_tensor({2, 1, 1, 2}, {5, 0, 9, 2}), DType::i32));  // 9 is not used
  AppendTensors t{new_k.view(), new_v.view(), k.view(), v.view(), have.view(), more.view(), table.view()};
  const Status status = append_kv(t);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(k.guards_intact() && v.guards_intact());
  const HostTensor now = k.read(), values = v.read();
  const std::int64_t pages[2][2] = {{5, 0}, {9, 2}}, lengths[2] = {3, 6}, counts_of[2] = {5, 2};
  std::int64_t written = 0;
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t i = 0; i < counts_of[b]; ++i)
      for (std::int64_t h = 0; h < 3; ++h)
        for (std::int64_t c = 0; c < 6; ++c) {
          const std::int64_t at = lengths[b] + i;
          ASSERT_EQ(now.at(pages[b][at / 4], h, at % 4, c), new_k.host.at(b, h, i, c));
          ++written;
          if (c >= 4) continue;
          ASSERT_EQ(values.at(pages[b][at / 4], h, at % 4, c), new_v.host.at(b, h, i, c));
        }
  EXPECT_EQ(std::count_if(now.storage.begin(), now.storage.end(), [](float x) { return !std::isnan(x); }),
            written);

  Stored bad(typed(packed_tensor({2, 1, 1, 2}, {5, 7, 9, 2}), DType::i32));
  t.page_table = bad.view();
  EXPECT_EQ(append_kv(t).message(),
            "page_table: row 0, column 1 must be at least 0 and below 7, the number of pages, got 7");
  Stored too_many(counts({5, 3}));
  t.page_table = table.view();
  t.new_lengths = too_many.view();
  EXPECT_EQ(append_kv(t).message(),
            "kv_lengths: batch element 1 has 6 keys and gets 3, more than its capacity: 9 > 8");
}

TEST(Append, O124_TheRotaryWidthIsEvenAndAtMostTheHeadDimension) {
  Stored x(numbered({1, 1, 1, 33}, DType::f32)), start(counts({0}));
  EXPECT_EQ(rotate(x.view(), start.view(), {.width = 33}, x.view()).message(),
            "rotary.width: must be even and at least 0, got 33");
  Stored y(numbered({1, 1, 1, 32}, DType::f32));
  EXPECT_EQ(rotate(y.view(), start.view(), {.width = 40}, y.view()).message(),
            "rotary.width: must be at most head_dim 32, got 40");
  EXPECT_EQ(rotate(y.view(), start.view(), {.width = 16, .base = 0}, y.view()).message().find("rotary.base"),
            0u);
  Fixture f = dense(DType::f32, 16, {3}, 1);
  EXPECT_EQ(append_kv(f.tensors(), {.width = 8}).message(),
            "rotary.width: must be at most head_dim 6, got 8");

  // 16 of 32: the others stay.
  Stored at(counts({5}));
  ASSERT_TRUE(rotate(y.view(), at.view(), {.width = 16}, y.view()).ok());
  const HostTensor now = y.read();
  for (std::int64_t c = 0; c < 32; ++c)
    EXPECT_EQ(now.at(0, 0, 0, c) == y.host.at(0, 0, 0, c), c >= 16) << "channel " << c;
}

// Against complex numbers: pair p is x + iy times e^(i t base^(-2p/w)).
TEST(Append, RotationIsThatOfTheDefinition) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const RotaryPairs pairs : {RotaryPairs::half_split, RotaryPairs::interleaved})
      for (const double base : {10000.0, 500000.0}) {
        const Stored x(numbered({2, 3, 4, 10}, dtype));
        Stored source = x, out(typed(constant({2, 3, 4, 10}, not_a_number), dtype)),
               start(counts({0, 100000}));
        const Rotary rotary{.width = 8, .pairs = pairs, .base = base};
        ASSERT_TRUE(rotate(source.view(), start.view(), rotary, out.view()).ok());
        EXPECT_EQ(source.memory, x.memory) << "the input was changed";
        const HostTensor got = out.read();
        const double unit = dtype == DType::f64   ? 0x1p-52
                            : dtype == DType::f32 ? 0x1p-23
                            : dtype == DType::f16 ? 0x1p-10
                                                  : 0x1p-7;
        for (std::int64_t b = 0; b < 2; ++b)
          for (std::int64_t h = 0; h < 3; ++h)
            for (std::int64_t i = 0; i < 4; ++i)
              for (std::int64_t p = 0; p < 4; ++p) {
                const std::int64_t first = pairs == RotaryPairs::interleaved ? 2 * p : p;
                const std::int64_t second = pairs == RotaryPairs::interleaved ? 2 * p + 1 : p + 4;
                const double position = static_cast<double>((b == 0 ? 0 : 100000) + i);
                const std::complex<double> before(x.host.value(b, h, i, first),
                                                  x.host.value(b, h, i, second));
                const std::complex<double> want =
                    before * std::polar(1.0, position / std::pow(base, static_cast<double>(p) / 4));
                // An angle of 1e5 is itself known to 1e5 * 2^-53.
                const double bound = std::abs(before) * (unit + 1e5 * 0x1p-50);
                ASSERT_NEAR(got.value(b, h, i, first), want.real(), bound) << dtype_name(dtype);
                ASSERT_NEAR(got.value(b, h, i, second), want.imag(), bound) << dtype_name(dtype);
              }
        for (std::int64_t c = 8; c < 10; ++c) ASSERT_EQ(got.at(1, 2, 3, c), x.host.at(1, 2, 3, c));
        // In place it is the same.
        ASSERT_TRUE(rotate(source.view(), start.view(), rotary, source.view()).ok());
        EXPECT_EQ(source.memory, out.memory);
      }
}

// A rotated query and a rotated key meet in a score that depends on their distance alone.
TEST(Append, ScoresDependOnTheDistanceAlone) {
  Stored q(numbered({1, 1, 1, 16}, DType::f64)), k(numbered({1, 1, 1, 16}, DType::f64));
  const auto score = [&](float query_at, float key_at) {
    Stored rotated_q = q, rotated_k = k, at_q(counts({query_at})), at_k(counts({key_at}));
    const Rotary rotary{.width = 16};
    EXPECT_TRUE(rotate(rotated_q.view(), at_q.view(), rotary, rotated_q.view()).ok());
    EXPECT_TRUE(rotate(rotated_k.view(), at_k.view(), rotary, rotated_k.view()).ok());
    const HostTensor a = rotated_q.read(), b = rotated_k.read();
    double sum = 0;
    for (std::int64_t c = 0; c < 16; ++c) sum += a.value(0, 0, 0, c) * b.value(0, 0, 0, c);
    return sum;
  };
  EXPECT_NEAR(score(7, 3), score(1007, 1003), 1e-9);
  EXPECT_GT(std::abs(score(7, 3) - score(7, 4)), 1e-3);
}

TEST_P(Case, O125_OnlyValidPositionsAreReadAfterAnAppend) {
  const Problem p = problem("b2:hq4:hk2:q1:k8:d4:causal:seqused");
  Stored new_k(constant({2, 2, 1, 4}, 0)), new_v(packed_tensor({2, 2, 1, 4}));
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t c = 0; c < 4; ++c) new_v.host.at(0, h, 0, c) = 2, new_v.host.at(1, h, 0, c) = 6;
  new_v = Stored(new_v.host);
  HostTensor cache_k = constant(k_shape(p), not_a_number), cache_v = cache_k;
  const std::int64_t past[] = {2, 6};
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t j = 0; j < past[b]; ++j)
        for (std::int64_t c = 0; c < 4; ++c) {
          cache_k.at(b, h, j, c) = 0;
          cache_v.at(b, h, j, c) = static_cast<float>(j);
        }
  Stored k(cache_k), v(cache_v), lengths(counts({2, 6}));
  AppendTensors t;
  t.new_k = new_k.view();
  t.new_v = new_v.view();
  t.k = k.view();
  t.v = v.view();
  t.kv_lengths = lengths.view();
  ASSERT_TRUE(append_kv(t).ok());
  Operands in{constant(q_shape(p), 0), k.read(), v.read()};
  in.kv_lengths = counts({3, 7});
  const auto answer = run(p, in);
  if (!answer) return;
  for (std::int64_t h = 0; h < 4; ++h) {
    expect_row(*answer, 0, h, 0, 1, 6);
    expect_row(*answer, 1, h, 0, 3, 6);
  }
  EXPECT_TRUE(std::isnan(k.read().at(0, 0, 3, 0))) << "beyond the length";
}

}  // namespace
}  // namespace runmax::kit
