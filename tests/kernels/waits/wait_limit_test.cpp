// A wait on the device that nobody ends names itself and traps, in a build with RUNMAX_WAIT_LIMIT.
#include <gtest/gtest.h>

#include "kernels/waits/wait_launch.hpp"
#include "runmax/runmax.hpp"

namespace runmax::kit {
namespace {

// In this order, in one test: a trap ends the process's use of the device.
TEST(WaitLimit, LetsAWaitEndThatEndsAndTrapsOneThatDoesNot) {
  const Result<DeviceFacts> facts = device_facts({DeviceKind::cuda, 0});
  if (!facts.ok()) GTEST_SKIP() << facts.status().message();
  if (facts.value().compute_capability < 90)
    GTEST_SKIP() << "mbarrier's waits need compute capability 90, got " << facts.value().compute_capability;
  ASSERT_EQ(wait_on_barrier(true), "");
  EXPECT_NE(wait_on_barrier(false), "") << "the kernel ended although nobody arrived";
}

}  // namespace
}  // namespace runmax::kit
