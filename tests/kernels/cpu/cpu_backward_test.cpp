// The CPU backward kernel, on every instruction set that this machine runs, against the gradient reference.
#include <hwy/targets.h>

#include "kernels/backward/cpu/tiles.hpp"
#include "tests/kernels/cpu/backward_case.hpp"

namespace runmax::testing_cpu {
namespace {

const char* const problems[] = {
    // Lengths on both sides of a register tile (6), a panel (16), a row tile (96), a key tile (192), an owner
    // (384).
    "q1:k1", "q1:k15", "q1:k16", "q1:k17", "q5:k95", "q6:k96", "q7:k97", "q95:k191", "q96:k192", "q97:k193",
    "q193:k383", "q2:k384", "q13:k385", "q31:k97:d1", "q2:k3:d3:dv5", "q101:k103:d17:dv1", "q61:k769:d24",
    // Head sizes.
    "q19:k67:d127", "q19:k67:d128", "q19:k67:d129", "q19:k67:d257:dv33", "q9:k20:d8:dv16", "q9:k20:d16:dv8",
    "q9:k20:d192:dv128", "q7:k33:d0:dv4", "q7:k33:d4:dv0", "q9:k20:d80:dv96",
    // Nothing to see, nothing to ask.
    "q7:k0:d8", "q0:k7:d8", "b2:hq4:hk2:q0:k20:d8",
    // Groups and batches.
    "b2:hq6:hk2:q33:k65:d32", "b3:hq4:hk4:q20:k40:d16", "hq12:hk1:q3:k300:d64", "hq7:hk1:q1:k1000:d64",
    "b2:hq2:hk1:q130:k260:d40",
    // Causal and windows: more keys than queries, fewer, none visible.
    "q100:k100:d32:causal", "q64:k700:d32:causal", "q130:k50:d32:causal", "q1024:k512:d16:causal",
    "q50:k80:d32:causal=top_left", "q80:k50:d32:causal=top_left", "hq4:hk2:q61:k61:d24:causal",
    "q600:k600:d16:causal:window=10,0", "q90:k90:d16:window=2,3", "q90:k90:d16:window=0,0",
    "q40:k1200:d16:window=600,5", "q300:k40:d16:window=5,-1", "q513:k1025:d64:causal",
    // Hostile values.
    "q64:k1000:d64:in=loud", "q200:k1000:d64:in=loud", "q40:k1000:d64:in=onesign", "q40:k1000:d64:in=wide",
    "q40:k1000:d64:in=equal", "q40:k1000:d64:in=needle", "q40:k1000:d64:in=rising",
    "q40:k1000:d64:in=falling", "q40:k1000:d64:in=hot", "q300:k40:d128:in=hot", "q20:k300:d64:scale=-0.2",
    "q20:k300:d64:scale=0", "q20:k300:d64:scale=0.3333333", "q1000:k40:d64:in=onesign"};

struct BackwardCase {
  std::string problem;
  std::int64_t target;
};

std::vector<BackwardCase> cases() {
  std::vector<BackwardCase> list;
  for (const std::int64_t target : cpu::tile_targets())
    for (const char* problem : problems) list.push_back({problem, target});
  return list;
}

class CpuBackward : public ::testing::TestWithParam<BackwardCase> {
 protected:
  void SetUp() override { cpu::force_tile_target(GetParam().target); }
  void TearDown() override { cpu::force_tile_target(0); }
};

TEST_P(CpuBackward, HoldsTheGradientGate) {
  ASSERT_STREQ(cpu::backward_functions().target, hwy::TargetName(GetParam().target));
  const Problem p = problem_of(GetParam().problem);
  const BackwardInputs in = backward_inputs(p);
  const GradientFractions fractions = expect_gradients_gated(p, in, gradients_of(p, in));
  RecordProperty("dq", std::to_string(fractions.dq));
  RecordProperty("dk", std::to_string(fractions.dk));
  RecordProperty("dv", std::to_string(fractions.dv));
}

std::string case_name(const ::testing::TestParamInfo<BackwardCase>& test) {
  return std::string(hwy::TargetName(test.param.target)) + "_" + test_name(test.param.problem);
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, CpuBackward, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace runmax::testing_cpu
