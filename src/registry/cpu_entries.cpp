#include "registry/cpu_entries.hpp"

#include "kernels/forward/cpu/launch.hpp"

namespace runmax {
namespace {

constexpr std::string_view arithmetic =
    "f32 multiply-add in tiles of 128 terms (fused where the processor has FMA), exp2 by polynomial";

constexpr Features baseline_serves{.f32 = true,
                                   .ieee = true,
                                   .causal_bottom_right = true,
                                   .causal_top_left = true,
                                   .window = true,
                                   .batch_invariant = true};

constexpr Features serves = with_every_option({.f32 = true, .f16 = true, .bf16 = true, .ieee = true});

}  // namespace

KernelEntry cpu_online_entry() {
  return {.name = "cpu_online",
          .device = DeviceKind::cpu,
          .choice = Choice::automatic,
          .summary = "the engine: SIMD tiles, running maximum, threads over heads, rows and keys",
          .computed_as = arithmetic,
          .serves = serves,
          .refuses = cpu::online_refuses,
          .fill_plan = cpu::fill_online_plan,
          .run = cpu::run_online};
}

KernelEntry cpu_double_entry() {
  return {.name = "cpu_double",
          .device = DeviceKind::cpu,
          .choice = Choice::automatic,
          .summary = "double precision: SIMD tiles, running maximum, threads over heads, rows and keys",
          .computed_as =
              "f64 multiply-add in tiles of 128 keys (fused where the processor has FMA), exp2 by polynomial",
          .serves = with_every_option({.f64 = true}),
          .refuses = cpu::double_refuses,
          .fill_plan = cpu::fill_double_plan,
          .run = cpu::run_double};
}

KernelEntry cpu_naive_entry() {
  return {.name = "cpu_naive",
          .device = DeviceKind::cpu,
          .choice = Choice::by_name,
          .summary = "the score matrix stored, by the engine's own tiles and threads: what the matrix costs",
          .computed_as = arithmetic,
          .serves = baseline_serves,
          .refuses = cpu::naive_refuses,
          .fill_plan = cpu::fill_naive_plan,
          .run = cpu::run_naive};
}

}  // namespace runmax
