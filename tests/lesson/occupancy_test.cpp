// Occupancy by arithmetic, against figures that devices reported.
#include "lesson/occupancy.hpp"

#include <gtest/gtest.h>

namespace runmax {
namespace lesson {
namespace {

TEST(Occupancy, OnAT4TheOnlineKernelHasOneBlockAnd25Percent) {
  const Occupancy o = predict_occupancy(published_limits(75), {256, 61, online_shared_bytes});
  EXPECT_EQ(o.blocks, 1);
  EXPECT_EQ(o.fraction, 0.25);
  EXPECT_STREQ(o.limited_by, "shared memory");
}

TEST(Occupancy, OnAT4EveryNaiveKernelHasFourBlocksAnd100Percent) {
  // Two 16 x 16 tiles of floats, and a softmax that reduces over 256 threads.
  for (int shared : {2 * 16 * 16 * 4, 2 * 16 * 17 * 4, 256 * 4, 8 * 4, 0}) {
    const Occupancy o = predict_occupancy(published_limits(75), {256, 40, shared});
    EXPECT_EQ(o.blocks, 4) << shared;
    EXPECT_EQ(o.fraction, 1.0) << shared;
    EXPECT_STREQ(o.limited_by, "threads") << shared;
  }
}

TEST(Occupancy, OnAnH200RegistersLimitTheOnlineKernel) {
  // 61 registers round to 2,048 a warp, 8 warps a sub-partition: 32 warps, 4 blocks of 8.
  const Occupancy o = predict_occupancy(published_limits(90), {256, 61, online_shared_bytes});
  EXPECT_EQ(o.by_threads, 8);
  EXPECT_EQ(o.by_registers, 4);
  EXPECT_EQ(o.by_shared, 6);
  EXPECT_EQ(o.blocks, 4);
  EXPECT_EQ(o.fraction, 0.5);
  EXPECT_STREQ(o.limited_by, "registers");
}

TEST(Occupancy, OnAnA100SharedMemoryAndRegistersBothAllowFour) {
  const Occupancy o = predict_occupancy(published_limits(80), {256, 61, online_shared_bytes});
  EXPECT_EQ(o.by_registers, 4);
  EXPECT_EQ(o.by_shared, 4);
  EXPECT_EQ(o.blocks, 4);
}

TEST(Occupancy, ReservedBytesCountAgainstSharedMemory) {
  // 228 KiB would hold two blocks of 114 KiB, but the driver takes 1 KiB of each.
  EXPECT_EQ(predict_occupancy(published_limits(90), {128, 32, 114 * 1024}).blocks, 1);
  EXPECT_EQ(predict_occupancy(published_limits(90), {128, 32, 113 * 1024}).blocks, 2);
}

TEST(Occupancy, SharedMemoryIsGivenOutInUnits) {
  // 32,768 bytes fit twice on a T4; one byte more takes another 256.
  EXPECT_EQ(predict_occupancy(published_limits(75), {256, 32, 32768}).by_shared, 2);
  EXPECT_EQ(predict_occupancy(published_limits(75), {256, 32, 32769}).by_shared, 1);
  EXPECT_EQ(shared_unit_bytes(75), 256);
  EXPECT_EQ(shared_unit_bytes(80), 128);
  EXPECT_EQ(shared_unit_bytes(90), 128);
}

TEST(Occupancy, RegistersAreGivenToWarpsOfASubPartition) {
  // 168 registers: 5,376 a warp, 3 warps in each of 4 sub-partitions, so 12 warps and not 65536 / 5376
  // = 12.19.
  EXPECT_EQ(predict_occupancy(published_limits(90), {128, 168, 0}).by_registers, 3);
  // 72 registers: 2,304 a warp, 7 a sub-partition: 28 warps hold three blocks of 8.
  EXPECT_EQ(predict_occupancy(published_limits(90), {256, 72, 0}).by_registers, 3);
  // A block of 5 warps takes 8 slots.
  EXPECT_EQ(predict_occupancy(published_limits(90), {160, 64, 0}).by_registers, 4);
}

TEST(Occupancy, AKernelThatCannotRunHasNoBlock) {
  EXPECT_EQ(predict_occupancy(published_limits(75), {1024, 255, 0}).blocks, 0);
  EXPECT_EQ(predict_occupancy(published_limits(75), {256, 32, 65 * 1024}).blocks, 0);
  EXPECT_EQ(predict_occupancy(published_limits(75), {0, 32, 0}).blocks, 0);
  EXPECT_EQ(predict_occupancy(published_limits(12), {256, 32, 0}).blocks, 0) << "an unknown architecture";
}

TEST(Occupancy, SmallBlocksAreLimitedByTheNumberOfBlocks) {
  const Occupancy o = predict_occupancy(published_limits(75), {32, 16, 0});
  EXPECT_EQ(o.blocks, 16);
  EXPECT_EQ(o.fraction, 0.5);
  EXPECT_STREQ(o.limited_by, "blocks");
}

TEST(SharedMemory, TheOnlineKernelTakes32896Bytes) { EXPECT_EQ(online_shared_bytes, 32896); }

}  // namespace
}  // namespace lesson
}  // namespace runmax
