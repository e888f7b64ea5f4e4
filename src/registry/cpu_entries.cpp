#include "registry/cpu_entries.hpp"

#include "kernels/forward/cpu/launch.hpp"

namespace runmax {
namespace {

constexpr std::string_view arithmetic =
    "f32 multiply-add in tiles of 128 terms (fused where the processor has FMA), exp2 by polynomial";

constexpr Features serves{.f32 = true,
                          .ieee = true,
                          .causal_bottom_right = true,
                          .causal_top_left = true,
                          .window = true,
                          .batch_invariant = true};

}  // namespace

KernelEntry cpu_online_entry() {
  KernelEntry entry;
  entry.name = "cpu_online";
  entry.device = DeviceKind::cpu;
  entry.choice = Choice::automatic;
  entry.summary = "the engine: SIMD tiles, running maximum, threads over heads, rows and keys";
  entry.computed_as = arithmetic;
  entry.serves = serves;
  entry.refuses = cpu::online_refuses;
  entry.fill_plan = cpu::fill_online_plan;
  entry.run = cpu::run_online;
  return entry;
}

KernelEntry cpu_naive_entry() {
  KernelEntry entry;
  entry.name = "cpu_naive";
  entry.device = DeviceKind::cpu;
  entry.choice = Choice::by_name;
  entry.summary = "the score matrix stored, by the engine's own tiles and threads: what the matrix costs";
  entry.computed_as = arithmetic;
  entry.serves = serves;
  entry.refuses = cpu::naive_refuses;
  entry.fill_plan = cpu::fill_naive_plan;
  entry.run = cpu::run_naive;
  return entry;
}

}  // namespace runmax
