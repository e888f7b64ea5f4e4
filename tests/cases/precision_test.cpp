// Kind 39: f32 means f32. Also the gates of `runmax check` on every kernel and kind of input.
#include "check/check.hpp"
#include "inputs/random.hpp"
#include "kit/case.hpp"
#include "reference/reference.hpp"

namespace runmax::kit {
namespace {

RUNMAX_CASES_ON_ALL_KERNELS();

TEST_P(Case, O109_ScoresAreNotRoundedToFewerBits) {
  for (const int d : {1, 8, 64}) {
    const Problem p = problem("q1:d" + std::to_string(d) + ":scale=1");
    HostTensor q = constant(q_shape(p), 0);
    q.at(0, 0, 0, 0) = 1 + 0x1p-12f;
    const auto answer = run(p, q, q, constant(v_shape(p), 1));
    if (!answer) continue;
    EXPECT_NEAR(answer->lse.at(0, 0, 0), 1.0004883409, 1e-6);
  }
}

TEST_P(Case, O110_F32HasATightToleranceOfItsOwn) {
  for (const char* text : {"h2:q257:d64:seed=110", "h2:q257:d64:causal:seed=110", "h2:q256:d64:seed=110"}) {
    const Problem p = problem(text);
    const inputs::HostInputs drawn = inputs::draw(p);
    const auto answer = run(p, packed_tensor(q_shape(p), drawn.q), packed_tensor(k_shape(p), drawn.k),
                            packed_tensor(v_shape(p), drawn.v));
    if (!answer) continue;
    for (std::int64_t h = 0; h < 2; ++h) {
      const std::int64_t n = p.query_len, at = h * n * 64;
      const reference::Head<float> head{{drawn.q.data() + at, 64, 1},
                                        {drawn.k.data() + at, 64, 1},
                                        {drawn.v.data() + at, 64, 1},
                                        n,
                                        n,
                                        64,
                                        64,
                                        0.125};
      reference::for_each_reference_row(
          head, reference::all_rows(n),
          [&](std::int64_t i) {
            const KeyRange keys = visible_keys(p.causal, p.window, n, n, i);
            return reference::Keys{keys.begin, keys.end};
          },
          2,
          [&](std::int64_t i, const reference::Row<double>& row) {
            for (std::int64_t c = 0; c < 64; ++c)
              ASSERT_NEAR(answer->o.at(0, h, i, c), row.out[static_cast<std::size_t>(c)], 5e-6) << text;
            ASSERT_NEAR(answer->lse.at(0, h, i), row.lse, std::max(1e-5, 2e-6 * std::abs(row.lse))) << text;
          });
    }
  }
}

TEST_P(Case, EveryKindOfInputPassesItsGates) {
  if (!serves_f32()) GTEST_SKIP() << "dtype f32 is not served";
  for (const char* kind :
       {"normal", "loud", "onesign", "wide", "equal", "needle", "rising", "falling", "hot"})
    for (const char* shape : {"h2:q128:d64", "b2:hq4:hk2:q65:k193:d40:dv24", "q260:k130:d64:causal",
                              "h2:q130:k200:d96:window=50,3"}) {
      const Problem p = problem(std::string(shape) + ":in=" + kind);
      check::CheckOptions with_kernel;
      with_kernel.kernel = GetParam();
      const Result<check::CheckReport> report = check::check_problem(p, facts(), with_kernel);
      if (!report.ok()) {
        EXPECT_TRUE(report.status().code() == StatusCode::unsupported && !is_engine())
            << report.status().message();
        continue;
      }
      EXPECT_TRUE(report.value().accepted()) << describe(report.value());
    }
}

}  // namespace
}  // namespace runmax::kit
