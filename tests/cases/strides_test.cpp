// Kind 08: strides of every operand, and base pointers aligned to the element alone.
#include "kit/case.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

TEST_P(Case, O023_AStrideIsHonouredOrRefused) {
  const Problem p = problem("q1:k2:d2:dv1:scale=1");
  HostTensor k = packed_tensor({1, 1, 2, 2});
  k.strides = {4, 4, 1, 2};  // stored transposed
  k.storage = {0, std::log(3.0f), 5, 7};
  HostTensor q = packed_tensor({1, 1, 1, 2}, {1, 0});
  const auto answer = run(p, q, k, rows({4, 8}));
  if (!answer) return;
  expect_row(*answer, 0, 0, 0, 7, 8);
  expect_lse(*answer, 0, 0, 0, 1.386294);
}

// A tensor like `packed`, spread over memory with the given strides; what lies between holds NaN.
HostTensor spread(const HostTensor& packed, std::array<std::int64_t, 4> strides, std::int64_t offset = 0) {
  HostTensor tensor = packed;
  tensor.strides = strides;
  tensor.offset = offset;
  std::int64_t lowest = 0, highest = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const std::int64_t reach = (packed.shape[axis] - 1) * strides[axis];
    (reach < 0 ? lowest : highest) += reach;
  }
  tensor.offset -= lowest;
  tensor.storage.assign(static_cast<std::size_t>(tensor.offset + highest + 1), not_a_number);
  for (std::int64_t b = 0; b < packed.shape[0]; ++b)
    for (std::int64_t h = 0; h < packed.shape[1]; ++h)
      for (std::int64_t i = 0; i < packed.shape[2]; ++i)
        for (std::int64_t c = 0; c < packed.shape[3]; ++c) tensor.at(b, h, i, c) = packed.at(b, h, i, c);
  return tensor;
}

// Q, K and V with no symmetry, so that any exchanged or ignored stride changes the answer.
Operands distinct(const Problem& p) {
  Operands in{packed_tensor(q_shape(p)), packed_tensor(k_shape(p)), packed_tensor(v_shape(p))};
  int step = 0;
  for (HostTensor* tensor : {&in.q, &in.k, &in.v})
    for (float& value : tensor->storage) value = static_cast<float>((step = (step * 37 + 11) % 101)) / 50 - 1;
  return in;
}

void expect_same(const Answer& got, const Answer& want, const std::string& what) {
  for (std::int64_t b = 0; b < want.o.shape[0]; ++b)
    for (std::int64_t h = 0; h < want.o.shape[1]; ++h)
      for (std::int64_t i = 0; i < want.o.shape[2]; ++i) {
        for (std::int64_t c = 0; c < want.o.shape[3]; ++c)
          ASSERT_NEAR(got.o.at(b, h, i, c), want.o.at(b, h, i, c), 1e-6) << what << " row " << i;
        ASSERT_NEAR(got.lse.at(b, h, i), want.lse.at(b, h, i), 1e-5) << what << " row " << i;
      }
}

TEST_P(Case, O024_StridesOfEveryOperandAreHonoured) {
  const Problem p = problem("b2:hq4:hk2:q37:k41:d12:dv9:causal");
  const Operands in = distinct(p);
  const auto want = run(p, in);
  if (!want) return;
  const HostTensor& o = want->o;
  const HostTensor& lse = want->lse;
  const auto with = [&](const char* what, const HostTensor& q, const HostTensor& k, const HostTensor& v,
                        const HostTensor& o_like, const HostTensor& lse_like) {
    const auto got = run(p, q, k, v, options(), o_like, lse_like);
    if (got) expect_same(*got, *want, what);
  };
  // Padded rows, sequence before heads, channels apart, reversed.
  with("q padded", spread(in.q, {8000, 1000, 20, 1}), in.k, in.v, o, lse);
  with("k bshd", in.q, spread(in.k, {41 * 2 * 12, 12, 24, 1}), in.v, o, lse);
  with("v channels apart", in.q, in.k, spread(in.v, {4000, 2000, 1, 43}), o, lse);
  with("v reversed", in.q, in.k, spread(in.v, {-1000, 500, -10, 1}), o, lse);
  with("o bshd padded", in.q, in.k, in.v, spread(o, {37 * 4 * 16, 16, 64, 1}), lse);
  with("o channels apart", in.q, in.k, in.v, spread(o, {1600, 400, 1, 39}), lse);
  with("lse apart", in.q, in.k, in.v, o, spread(lse, {1, 2, 8, 1}));
}

TEST_P(Case, O024_BroadcastInputsHaveStrideZero) {
  const Problem p = problem("b3:h2:q5:k7:d4");
  Operands in = mean_index(p);
  in.k = constant({1, 1, 1, 1}, 0.5f);
  in.k.shape = k_shape(p);
  in.k.strides = {0, 0, 0, 0};
  in.v = rows({0, 1, 2, 3, 4, 5, 6});
  in.v.shape = v_shape(p);
  in.v.strides = {0, 0, 1, 0};
  const auto answer = run(p, in);
  if (answer) expect_all(*answer, 3, 6, std::log(7.0));
}

TEST_P(Case, O025_OddLengthsInManyHeads) {
  const Problem p = problem("h16:q43:d64");
  const auto answer = run(p, mean_index(p));
  if (answer) expect_all(*answer, 21, 42, 3.7612001);
}

TEST_P(Case, O026_BasePointersAlignedToTheElementAlone) {
  const Problem p = problem("q129:d64");
  const Operands in = equal_scores(p, constant(v_shape(p), 1));
  const auto shift = [](const HostTensor& tensor) { return spread(tensor, tensor.strides, 1); };
  const HostTensor o = packed_tensor({1, 1, 129, 64}), lse = packed_tensor({1, 1, 129, 1});
  const Operands shifted{shift(in.q), shift(in.k), shift(in.v)};
  const struct {
    const char* what;
    const HostTensor &q, &k, &v;
    HostTensor o, lse;
  } each[] = {{"q", shifted.q, in.k, in.v, o, lse},
              {"k", in.q, shifted.k, in.v, o, lse},
              {"v", in.q, in.k, shifted.v, o, lse},
              {"o", in.q, in.k, in.v, shift(o), lse},
              {"lse", in.q, in.k, in.v, o, shift(lse)}};
  for (const auto& one : each) {
    SCOPED_TRACE(one.what);
    const auto answer = run(p, one.q, one.k, one.v, options(), one.o, one.lse);
    if (answer) expect_all(*answer, 1, 1, std::log(129.0));
  }
}

}  // namespace
}  // namespace runmax::kit
