// Every CPU forward kernel, on every instruction set that this machine runs, against the reference.
#include "kernels/forward/cpu/tiles.hpp"

#include <hwy/targets.h>

#include "tests/kernels/cpu/attention_case.hpp"

namespace runmax::testing_cpu {
namespace {

const char* const problems[] = {
    // Lengths on both sides of a panel (16), a row tile (96), a chain (128) and a key tile (512).
    "q1:k1", "q1:k15", "q1:k16", "q1:k17", "q5:k127", "q6:k128", "q7:k129", "q95:k511", "q96:k512",
    "q97:k513", "q193:k1031", "q31:k97:d1", "q2:k3:d3:dv5", "q101:k103:d17:dv1",
    // Head sizes.
    "q19:k67:d127", "q19:k67:d128", "q19:k67:d129", "q19:k67:d257:dv33", "q9:k20:d8:dv16", "q9:k20:d16:dv8",
    "q9:k20:d192:dv128", "q7:k33:d0:dv4", "q7:k33:d4:dv0", "q7:k0:d8", "q9:k20:d80:dv96",
    // Groups and batches.
    "b2:hq6:hk2:q33:k65:d32", "b3:hq4:hk4:q20:k40:d16", "hq12:hk1:q3:k300:d64", "hq7:hk1:q1:k1000:d64",
    "b2:hq2:hk1:q130:k260:d40",
    // Causal and windows: more keys than queries, fewer, none visible.
    "q100:k100:d32:causal", "q64:k700:d32:causal", "q130:k50:d32:causal", "q1024:k512:d16:causal",
    "q50:k80:d32:causal=top_left", "q80:k50:d32:causal=top_left", "hq4:hk2:q61:k61:d24:causal",
    "q600:k600:d16:causal:window=10,0", "q90:k90:d16:window=2,3", "q90:k90:d16:window=0,0",
    "q40:k1200:d16:window=600,5", "q300:k40:d16:window=5,-1", "q513:k1025:d64:causal",
    // Split over keys.
    "q1:k8192:d64", "hq8:hk2:q1:k5000:d128", "q20:k4099:d32:causal",
    // Hostile values.
    "q64:k1000:d64:in=loud", "q200:k2100:d64:in=loud", "q40:k1000:d64:in=onesign", "q40:k1000:d64:in=wide",
    "q40:k1000:d64:in=equal", "q40:k1000:d64:in=needle", "q40:k1000:d64:in=rising",
    "q40:k1000:d64:in=falling", "q40:k1000:d64:in=hot", "q20:k300:d64:scale=-0.2", "q20:k300:d64:scale=0",
    "q20:k300:d64:scale=0.3333333", "q40:k4096:d64:in=onesign", "q40:k4096:d64:in=needle"};

struct ForwardCase {
  std::string kernel;
  std::string problem;
  std::int64_t target;
};

std::vector<ForwardCase> cases() {
  std::vector<ForwardCase> list;
  for (const std::int64_t target : cpu::tile_targets())
    for (const char* kernel : {"cpu_online", "cpu_naive"})
      for (const char* problem : problems) list.push_back({kernel, problem, target});
  return list;
}

class CpuForward : public ::testing::TestWithParam<ForwardCase> {
 protected:
  void SetUp() override { cpu::force_tile_target(GetParam().target); }
  void TearDown() override { cpu::force_tile_target(0); }
};

TEST_P(CpuForward, HoldsTheHostileGateWithoutAllowanceForSequentialSums) {
  ASSERT_STREQ(cpu::tile_functions().target, hwy::TargetName(GetParam().target));
  const Problem p = problem_of(GetParam().problem);
  const inputs::HostInputs in = inputs::draw(p);
  expect_gated(p, in, compute(p, in, {.kernel = GetParam().kernel}), GetParam().kernel, 60);
}

std::string case_name(const ::testing::TestParamInfo<ForwardCase>& test) {
  return std::string(hwy::TargetName(test.param.target)) + "_" + test.param.kernel + "_" +
         test_name(test.param.problem);
}
INSTANTIATE_TEST_SUITE_P(EveryTarget, CpuForward, ::testing::ValuesIn(cases()), case_name);

TEST(CpuForwardTargets, IncludeTheOneThatTheDispatchPicks) {
  const std::vector<std::int64_t> targets = cpu::tile_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_STREQ(cpu::tile_functions().target, hwy::TargetName(targets.front()));
  std::string names;
  for (const std::int64_t target : targets)
    names += std::string(names.empty() ? "" : " ") + hwy::TargetName(target);
  RecordProperty("targets", names);
}

}  // namespace
}  // namespace runmax::testing_cpu
