// The backward kernels.
#include <array>

#include "kernels/backward/cpu/launch.hpp"
#include "registry/registry.hpp"

namespace runmax {
namespace {

KernelEntry cpu_backward_entry() {
  return {
      .name = "cpu_backward",
      .device = DeviceKind::cpu,
      .choice = Choice::automatic,
      .summary = "the engine's gradients: weights recomputed tile by tile, five products, no score matrix",
      .computed_as =
          "f32 multiply-add in tiles of at most 128 terms (fused where the processor has FMA), exp2 by "
          "polynomial, row sums of dO * O in f64",
      .serves = with_every_option({.f32 = true, .f16 = true, .bf16 = true, .ieee = true}),
      .refuses = cpu::backward_refuses,
      .fill_plan = cpu::fill_backward_plan,
      .run_backward = cpu::run_backward};
}

KernelEntry cpu_double_backward_entry() {
  return {.name = "cpu_double_backward",
          .device = DeviceKind::cpu,
          .choice = Choice::automatic,
          .summary = "gradients in double precision: SIMD tiles, each output computed whole by one thread",
          .computed_as =
              "f64 multiply-add in tiles of at most 128 terms (fused where the processor has FMA), "
              "exp2 by polynomial",
          .serves = with_every_option({.f64 = true}),
          .refuses = cpu::double_backward_refuses,
          .fill_plan = cpu::fill_double_backward_plan,
          .run_backward = cpu::run_double_backward};
}

}  // namespace

std::span<const KernelEntry> backward_kernels() {
  static const std::array list{cpu_backward_entry(), cpu_double_backward_entry()};
  return list;
}

const KernelEntry* find_backward_kernel(std::string_view name) {
  for (const KernelEntry& kernel : backward_kernels())
    if (kernel.name == name) return &kernel;
  return nullptr;
}

std::vector<KernelInfo> list_backward_kernels() {
  std::vector<KernelInfo> list;
  for (const KernelEntry& kernel : backward_kernels())
    list.push_back({kernel.name, kernel.device, kernel.summary, kernel.built});
  return list;
}

}  // namespace runmax
